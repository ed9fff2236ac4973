package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// updatesRow is what became of the edits of several agents on one file.
type updatesRow struct {
	server       string
	shared       bool // one server for all agents; else one for each
	refused      bool // a second server does not start beside the first
	edits        int
	acknowledged int
	lost         int // acknowledged, and not in the file
	refusals     int // edits that were told to try again
	gaveUp       int
	spoilt       int // lines of the file that nobody touched and that are gone
	text         int // bytes that agents sent and read, for all edits
}

const (
	agents        = 8
	editsPerAgent = 25
	tries         = 5                // of an edit that is refused
	patience      = 20 * time.Second // for one server
)

// lostUpdates has agents edit one file at the same time, each at a place of its
// own.
func (s *site) lostUpdates(ctx context.Context, e effort) ([]updatesRow, error) {
	var out []updatesRow
	edits := min(editsPerAgent, e.fileRounds)
	for i, one := range s.servers {
		r, err := updates(ctx, one, filepath.Join(s.dir, "updates-"+one.name+".txt"), slices.Repeat([]*shared{s.shared[i]}, agents), edits)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", one.name, err)
		}
		r.shared = true
		out = append(out, r)
	}
	for _, one := range s.servers {
		r, err := updatesOfEach(ctx, one, filepath.Join(filepath.Dir(s.dir), "each", one.name), edits)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", one.name, err)
		}
		out = append(out, r)
	}
	return out, nil
}

// updatesOfEach has every agent start a server of its own in dir, as hosts do.
func updatesOfEach(ctx context.Context, one *fileServer, dir string, edits int) (out updatesRow, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return out, err
	}
	var connections []*shared
	defer func() {
		for _, c := range connections {
			err = errors.Join(err, c.close())
		}
	}()
	for range agents {
		c, err := one.start(ctx, dir)
		if err != nil && strings.Contains(err.Error(), "is in use by another") {
			return updatesRow{server: one.name, edits: agents * edits, refused: true}, nil
		}
		if err != nil {
			return out, err
		}
		connections = append(connections, share(c))
	}
	return updates(ctx, one, filepath.Join(dir, "file.txt"), connections, edits)
}

// updates has each agent make its edits in file on its connection.
func updates(ctx context.Context, one *fileServer, file string, connections []*shared, edits int) (out updatesRow, err error) {
	out = updatesRow{server: one.name, edits: agents * edits}
	var start []string
	for i := range agents {
		start = append(start, fmt.Sprintf("# part of agent %d", i), fmt.Sprintf("end of agent %d", i))
	}
	if err := os.WriteFile(file, []byte(strings.Join(start, "\n")+"\n"), 0o644); err != nil {
		return out, err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	results := make([]updatesRow, agents)
	acknowledged := make([][]string, agents)
	failures := make([]error, agents)
	var all sync.WaitGroup
	for i := range agents {
		all.Go(func() {
			acknowledged[i], failures[i] = agent(ctx, one, connections[i], file, i, edits, &results[i])
		})
	}
	all.Wait()
	if err := errors.Join(failures...); err != nil {
		return out, err
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return out, err
	}
	there := make(map[string]bool)
	for line := range strings.Lines(string(b)) {
		there[strings.TrimSpace(line)] = true
	}
	for i, r := range results {
		out.refusals, out.gaveUp, out.text = out.refusals+r.refusals, out.gaveUp+r.gaveUp, out.text+r.text
		out.acknowledged += len(acknowledged[i])
		for _, line := range acknowledged[i] {
			if !there[line] {
				out.lost++
			}
		}
	}
	for _, line := range start {
		if !there[line] {
			out.spoilt++
		}
	}
	return out, nil
}

// agent makes its edits one after the other and returns the lines that the
// server said are in the file.
func agent(ctx context.Context, one *fileServer, c *shared, file string, id, edits int, out *updatesRow) (acknowledged []string, err error) {
	hash := ""
	ask := func(what call) ([]byte, error) {
		answer, err := c.do(ctx, what)
		if now := hashIn(answer); now != "" {
			hash = now
		}
		request, _ := what.request(1)
		out.text += len(request) + len(answer)
		if body := structured(answer); len(body) > 0 {
			out.text += len(body) - len(answer) // it comes twice, and is read once
		}
		return answer, err
	}
	if _, err := ask(one.read(file)); err != nil {
		return nil, late(ctx, err)
	}
	end := fmt.Sprintf("end of agent %d", id)
	for n := range edits {
		line := fmt.Sprintf("agent %d edit %d", id, n)
		done := false
		for try := 0; try < tries && !done; try++ {
			answer, err := ask(one.edit(file, end, line+"\n"+end, hash))
			if err != nil {
				out.gaveUp += edits - n
				return acknowledged, late(ctx, err)
			}
			if done = !one.refused(answer); !done {
				out.refusals++
			}
		}
		if !done {
			out.gaveUp++
			continue
		}
		acknowledged = append(acknowledged, line)
	}
	return acknowledged, nil
}

// late is nil for an error that comes of a server that took too long.
func late(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}
