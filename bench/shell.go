package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// shellResults is what was measured of commands.
type shellResults struct {
	noPeers error
	run     row
	peers   []string
	capture captured
	crowd   time.Duration // of crowdSize commands at once
	refuse  sample        // a denied command, end to end
}

// captured is what a command printed and what that cost.
type captured struct {
	bytes  int64
	took   time.Duration
	floor  time.Duration // the same into a pipe of this process
	before memory
	after  memory
}

const (
	landlocked, bubbled = "Landlock", "bubblewrap"

	execGoal     = 2.0 // times a bare start of sh
	landlockGoal = 2500 * time.Microsecond
	bubbleGoal   = 5 * time.Millisecond
	captureGoal  = 300 << 20 // bytes a second
	growthGoal   = 32 << 20
	crowdSize    = 200
)

// commandServer is a server that runs commands, in the words of its own tools.
type commandServer struct {
	name string
	argv []string
	env  []string
	run  func(command string) call
}

func (p *programs) commandServer(name, dir, sandbox string) commandServer {
	return commandServer{
		name: name, env: p.env,
		argv: []string{
			p.ours, "stdio", "--standalone", "--root", filepath.Join(dir, sandbox), "--set", "shell.enabled=true", "--set", "shell.max_commands_per_minute=0",
			"--set", "sandbox.backend=" + sandbox, "--set", fmt.Sprintf("shell.max_concurrent_processes=%d", crowdSize+1),
		},
		run: func(command string) call { return call{"async_exec", map[string]any{"command": command}} },
	}
}

func (p *peerPrograms) commandServers() []commandServer {
	if p == nil {
		return nil
	}
	return []commandServer{
		{
			name: "desktop-commander", env: p.env,
			argv: append(p.confined(), "node", filepath.Join(p.npm, "@wonderwhy-er/desktop-commander/dist/index.js"), "--no-onboarding"),
			run: func(command string) call {
				return call{"start_process", map[string]any{"command": command, "timeout_ms": 10000}}
			},
		},
		{
			name: "mcp-server-commands", env: p.env,
			argv: append(p.confined(), "node", filepath.Join(p.npm, "mcp-server-commands/build/index.js")),
			run:  func(command string) call { return call{"run_command", map[string]any{"command": command}} },
		},
	}
}

func measureShell(ctx context.Context, p *programs, peers *peerPrograms, e effort) (out *shellResults, err error) {
	// A project has one server, so each has one of its own.
	dir := filepath.Join(filepath.Dir(p.root), "shell")
	for _, sub := range []string{"none", "landlock", "bwrap"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			return nil, err
		}
	}
	out = &shellResults{run: row{name: "a command that does nothing"}}
	out.run.sides = []*sided{{name: theFloor, op: func() error { return exec.CommandContext(ctx, "sh", "-c", "true").Run() }}}
	servers := append([]commandServer{
		p.commandServer(ours, dir, "none"), p.commandServer(landlocked, dir, "landlock"), p.commandServer(bubbled, dir, "bwrap"),
	}, peers.commandServers()...)
	clients := make(map[string]*stdioClient)
	defer func() {
		for _, c := range clients {
			_ = c.stdin.Close()
			_ = c.cmd.Wait() // peers have their own ways out
		}
	}()
	for i, s := range servers {
		c, err := startStdio(ctx, s.argv, s.env)
		if err == nil {
			err = c.greet()
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.name, err)
		}
		clients[s.name] = c
		if i >= 3 {
			out.peers = append(out.peers, s.name)
		}
		out.run.sides = append(out.run.sides, &sided{name: s.name, op: func() error {
			answer, err := c.do(s.run("true"))
			if err == nil && (bytes.Contains(answer, []byte(`"isError":true`)) || bytes.Contains(answer, []byte(`"error":`))) {
				err = fmt.Errorf("it did not run: %.300s", answer)
			}
			return err
		}})
	}
	if err := out.run.take(e.fileRounds, 20); err != nil {
		return nil, err
	}
	own := clients[ours]
	for range 50 {
		begin := time.Now()
		answer, err := own.do(servers[0].run("cat go.mod"))
		if err != nil || !bytes.Contains(answer, []byte(`"denied"`)) {
			return nil, errors.Join(err, fmt.Errorf("it was not denied: %.300s", answer))
		}
		out.refuse.times = append(out.refuse.times, time.Since(begin))
	}
	if err := out.crowded(own); err != nil {
		return nil, err
	}
	size := int64(1 << 30)
	if e.fileRounds < 10 {
		size = 64 << 20
	}
	return out, out.captures(ctx, own, filepath.Join(dir, "none"), size)
}

// crowded runs many commands at once.
func (r *shellResults) crowded(c *stdioClient) error {
	begin := time.Now()
	var ids []string
	for range crowdSize {
		answer, err := c.do(call{"async_exec", map[string]any{"command": "sleep 0.2", "background": true}})
		if err != nil {
			return err
		}
		_, rest, ok := strings.Cut(string(answer), `"task_id":"`)
		if !ok {
			return fmt.Errorf("it was not started: %.300s", answer)
		}
		id, _, _ := strings.Cut(rest, `"`)
		ids = append(ids, id)
	}
	for _, id := range ids {
		if _, err := c.do(call{"async_wait", map[string]any{"task_id": id}}); err != nil {
			return err
		}
	}
	r.crowd = time.Since(begin)
	return nil
}

// captures has a command print a lot, beside the same into a pipe.
func (r *shellResults) captures(ctx context.Context, c *stdioClient, dir string, size int64) error {
	script := filepath.Join(dir, "print.sh")
	if err := os.WriteFile(script, fmt.Appendf(nil, "#!/bin/sh\nhead -c %d /dev/zero | tr '\\0' x\n", size), 0o755); err != nil {
		return err
	}
	begin := time.Now()
	floor := exec.CommandContext(ctx, script)
	var sink counter
	floor.Stdout = &sink
	if err := floor.Run(); err != nil {
		return err
	}
	r.capture = captured{bytes: int64(sink), floor: time.Since(begin), before: memoryOf(c.pid())}
	begin = time.Now()
	answer, err := c.do(call{"async_exec", map[string]any{"command": "./print.sh", "timeout": 600}})
	if err != nil || !bytes.Contains(answer, []byte(`"truncated":true`)) {
		return errors.Join(err, fmt.Errorf("not captured: %.300s", answer))
	}
	r.capture.took, r.capture.after = time.Since(begin), memoryOf(c.pid())
	return nil
}

// counter counts what is written to it.
type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

func (r *shellResults) write(line func(format string, args ...any)) {
	line("")
	line("## Commands")
	line("")
	line("`true` through each server on stdio, one after the other, beside a bare start of `sh -c true` in the client's own process. Ours judges it, starts it as a job in a process tree of its own, follows the project's files and records the call; *ours* is without a sandbox.")
	line("")
	if r.noPeers == nil {
		line("Peers: `@wonderwhy-er/desktop-commander` 0.2.52 (`start_process`) and `mcp-server-commands` 0.5.0 (`run_command`) from npm, each without a network. They judge, confine and record nothing.")
		line("")
	}
	floor, own := r.run.side(theFloor).median(), r.run.side(ours).median()
	line("| | median | p99 | / floor | beyond ours | goal |")
	line("|---|---:|---:|---:|---:|---|")
	for _, s := range r.run.sides {
		beyond, goal := s.median()-own, ""
		switch s.name {
		case ours:
			goal = verdict(float64(own) <= execGoal*float64(floor), "≤ %.3g× the floor", execGoal)
		case landlocked:
			goal = verdict(beyond <= landlockGoal, "≤ +%s", ms(landlockGoal))
		case bubbled:
			goal = verdict(beyond <= bubbleGoal, "≤ +%s", ms(bubbleGoal))
		}
		line("| %s | %s | %s | %s | %s | %s |", s.name, ms(s.median()), ms(s.quantile(0.99)), ratio(s.median(), floor), ms(beyond), goal)
	}
	line("")
	rate := float64(r.capture.bytes) / r.capture.took.Seconds()
	grown := int64(r.capture.after.resident) - int64(r.capture.before.resident)
	line("| | | goal |")
	line("|---|---:|---|")
	line("| a command that is denied | %s | |", ms(r.refuse.median()))
	line("| %d commands of 0.2 s at once, started and waited for one by one | %s | all of them run |", crowdSize, ms(r.crowd))
	line("| %d MiB of output captured | %.0f MiB/s, %s the time of a bare pipe | %s |", r.capture.bytes>>20, rate/(1<<20), ratio(r.capture.took, r.capture.floor),
		verdict(rate >= captureGoal, "≥ %d MiB/s", captureGoal>>20))
	line("| memory that takes | %.1f MiB | %s |", float64(grown)/(1<<20), verdict(grown <= growthGoal, "≤ %d MiB", growthGoal>>20))
}
