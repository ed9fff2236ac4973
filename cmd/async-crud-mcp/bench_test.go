package main

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// benchHost starts the program as users get it and greets it.
func benchHost(b *testing.B, program, home string, args ...string) (*exec.Cmd, io.WriteCloser, *bufio.Reader) {
	b.Helper()
	cmd := exec.Command(program, append([]string{"stdio"}, args...)...)
	cmd.Env = append(os.Environ(), "ASYNC_CRUD_MCP_HOME="+home)
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	r := bufio.NewReaderSize(out, 1<<20)
	benchCall(b, in, r, 1, "initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}`)
	_, _ = io.WriteString(in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n")
	return cmd, in, r
}

func benchCall(b *testing.B, in io.Writer, out *bufio.Reader, id int, method, params string) {
	b.Helper()
	if _, err := fmt.Fprintf(in, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`+"\n", id, method, params); err != nil {
		b.Fatal(err)
	}
	for {
		line, err := out.ReadString('\n')
		if err != nil {
			b.Fatal(err)
		}
		if strings.HasPrefix(line, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,`, id)) {
			return
		}
	}
}

func benchProgram(b *testing.B) (program, home, root string) {
	b.Helper()
	dir := b.TempDir()
	program, home, root = filepath.Join(dir, "async-crud-mcp"), filepath.Join(dir, "home"), filepath.Join(dir, "project")
	if out, err := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", program, ".").CombinedOutput(); err != nil {
		b.Fatalf("%v\n%s", err, out)
	}
	for _, d := range []string{home, root} {
		if err := os.Mkdir(d, 0o755); err != nil {
			b.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "1k.txt"), []byte(strings.Repeat("sixteen bytes..\n", 64)), 0o644); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := endDaemon(home); err != nil {
			b.Error(err)
		}
	})
	return program, home, root
}

// reportMedian makes the median what counts: the machine may be busy.
func reportMedian(b *testing.B, name string, times []time.Duration) {
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/2].Nanoseconds())/1e3, name+"-p50-µs")
}

// BenchmarkBridgedCall reads a file of 1 KB in turns from a server of its own and
// through the bridge: what the bridge adds is the difference.
func BenchmarkBridgedCall(b *testing.B) {
	program, home, root := benchProgram(b)
	other := b.TempDir()
	if err := os.WriteFile(filepath.Join(other, "1k.txt"), []byte(strings.Repeat("sixteen bytes..\n", 64)), 0o644); err != nil {
		b.Fatal(err)
	}
	alone, aloneIn, aloneOut := benchHost(b, program, home, "--standalone", "--root", other)
	bridged, bridgedIn, bridgedOut := benchHost(b, program, home, "--root", root)
	var times [2][]time.Duration
	id := 1
	for b.Loop() {
		for i, side := range []struct {
			in  io.Writer
			out *bufio.Reader
		}{{aloneIn, aloneOut}, {bridgedIn, bridgedOut}} {
			id++
			begin := time.Now()
			benchCall(b, side.in, side.out, id, "tools/call", `{"name":"async_read","arguments":{"path":"1k.txt"}}`)
			times[i] = append(times[i], time.Since(begin))
		}
	}
	reportMedian(b, "alone", times[0])
	reportMedian(b, "bridged", times[1])
	for cmd, in := range map[*exec.Cmd]io.Closer{alone: aloneIn, bridged: bridgedIn} {
		_ = in.Close()
		_ = cmd.Wait()
	}
}

// BenchmarkStart times a process from its start to the answer of tools/list.
func BenchmarkStart(b *testing.B) {
	for name, running := range map[string]bool{"daemon=runs": true, "daemon=none": false} {
		b.Run(name, func(b *testing.B) {
			program, home, root := benchProgram(b)
			var times []time.Duration
			once := func() time.Duration {
				begin := time.Now()
				cmd, in, out := benchHost(b, program, home, "--root", root)
				benchCall(b, in, out, 2, "tools/list", `{}`)
				took := time.Since(begin)
				_ = in.Close()
				_ = cmd.Wait()
				return took
			}
			if running {
				once()
			}
			for b.Loop() {
				times = append(times, once())
				if !running {
					b.StopTimer()
					if err := endDaemon(home); err != nil {
						b.Fatal(err)
					}
					b.StartTimer()
				}
			}
			reportMedian(b, "start", times)
		})
	}
}
