package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// memoryOf reads what a process holds.
func memoryOf(pid int) (m memory) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return m
	}
	for line := range bytes.Lines(b) {
		var kb uint64
		if _, err := fmt.Sscanf(string(line), "VmRSS: %d kB", &kb); err == nil {
			m.resident = kb << 10
		}
		if _, err := fmt.Sscanf(string(line), "RssAnon: %d kB", &kb); err == nil {
			m.anonymous = kb << 10
		}
	}
	return m
}

// cpuOf sums the time the process's threads have run.
func cpuOf(pid int) (sum time.Duration) {
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil {
		return 0
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			continue // a thread that ended
		}
		var ns int64
		if _, err := fmt.Sscan(string(b), &ns); err == nil {
			sum += time.Duration(ns)
		}
	}
	return sum
}
