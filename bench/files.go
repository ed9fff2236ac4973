package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/async-crud-mcp/async-crud-mcp/internal/files/diff"
	"github.com/async-crud-mcp/async-crud-mcp/internal/files/lock"
)

// fileResults is what was measured of the file tools.
type fileResults struct {
	noPeers error // why there are none
	names   []string
	rows    []row
	during  []duringRow
	memory  memory
	hold    held
	hostile time.Duration
	sizes   []sizeRow
	updates []updatesRow
}

// row is one operation on every side.
type row struct {
	name    string
	goal    float64  // ours at most so many times what it is measured against
	against string   // the side it is measured against
	sides   []*sided // ours, the peers, the bare server and the floor, as far as they can do it
}

// sided is one side of a row: what it does, and what was seen.
type sided struct {
	name string
	op   func() error
	sample
}

func (r *row) side(name string) *sample {
	for _, s := range r.sides {
		if s.name == name {
			return &s.sample
		}
	}
	return nil
}

const ours, theFloor = "ours", "floor"

// take has the sides take turns. A turn ends after so many calls or when its time
// is up, so that a slow side does not hold up the others.
func (r *row) take(rounds, calls int) error {
	const slice = 30 * time.Millisecond
	for round := range rounds + 1 {
		for i := range r.sides {
			s := r.sides[(i+round)%len(r.sides)] // nobody is always first
			begin := time.Now()
			for n := 0; n < calls && (n == 0 || time.Since(begin) < slice); n++ {
				start := time.Now()
				if err := s.op(); err != nil {
					return fmt.Errorf("%s, %s: %w", r.name, s.name, err)
				}
				if round > 0 { // the first is to warm up
					s.times = append(s.times, time.Since(start))
				}
			}
		}
	}
	return nil
}

// site is where the servers work, with every server running on it.
type site struct {
	dir     string
	servers []*fileServer // ours, then the peers
	clients []*stdioClient
	shared  []*shared // the same, once several calls are made at a time
	bare    *stdioClient
	bareOps *fileServer
}

const small, large = 1 << 10, 1 << 20

// text returns n bytes that look like source code. The line numbers make every
// line different.
func text(n int) string {
	var b strings.Builder
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b, "\tif err := step(ctx, \"name\", %d); err != nil { return err }\n", i)
	}
	return b.String()[:n-1] + "\n"
}

func measureFiles(ctx context.Context, p *programs, peers *peerPrograms, e effort) (out *fileResults, err error) {
	out = &fileResults{}
	s := &site{dir: filepath.Join(filepath.Dir(p.root), "files"), servers: append([]*fileServer{p.fileServer()}, peers.fileServers()...), bareOps: p.bareFiles()}
	if err := s.fill(); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	for _, one := range s.servers {
		c, err := one.start(ctx, s.dir)
		if err != nil {
			return nil, err
		}
		s.clients, out.names = append(s.clients, c), append(out.names, one.name)
	}
	if s.bare, err = s.bareOps.start(ctx, s.dir); err != nil {
		return nil, err
	}
	for _, r := range []struct {
		row
		rounds, calls int
	}{
		{s.reads("read 1 KB", "small.txt", small), e.fileRounds, 20},
		{s.reads("read 1 MB", "large.txt", large), e.fileRounds, 5},
		{s.writes(), e.fileRounds, 20},
		{s.edits("edit one line in 1 KB", small, 2.5), e.fileRounds, 20},
		{s.edits("edit one line in 1 MB", large, 2), e.fileRounds, 5},
		{s.lists("list 1,000 entries", "flat", 2, false), e.fileRounds, 5},
		{s.lists("list 20,000 files, recursive", "tree", 3, true), min(e.fileRounds, 8), 1},
	} {
		if err := r.take(r.rounds, r.calls); err != nil {
			return nil, err
		}
		out.rows = append(out.rows, r.row)
	}
	settle(ctx)
	out.memory = memoryOf(s.clients[0].pid())
	if out.sizes, err = s.sizes(); err != nil {
		return nil, err
	}
	for _, c := range s.clients {
		s.shared = append(s.shared, share(c))
	}
	if out.during, err = s.readsDuringList(ctx, e); err != nil {
		return nil, err
	}
	out.hold, out.hostile = hold(), hostile() //nolint:contextcheck // a benchmark has its own
	out.updates, err = s.lostUpdates(ctx, e)
	return out, err
}

// fill makes the files that are read and listed.
func (s *site) fill() error {
	for _, dir := range []string{"flat", "tree", "writes", "edits"} {
		if err := os.MkdirAll(filepath.Join(s.dir, dir), 0o755); err != nil {
			return err
		}
	}
	for name, n := range map[string]int{"small.txt": small, "large.txt": large} {
		if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text(n)), 0o644); err != nil {
			return err
		}
	}
	for i := range 1000 {
		if err := os.WriteFile(filepath.Join(s.dir, "flat", fmt.Sprintf("file%04d.go", i)), nil, 0o644); err != nil {
			return err
		}
	}
	for d := range 200 {
		dir := filepath.Join(s.dir, "tree", fmt.Sprintf("dir%03d", d))
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
		for i := range 99 { // with the directories: 20,000 entries, the most of one listing
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("file%03d.go", i)), nil, 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *site) close() error {
	var errs []error
	for _, c := range append(s.clients, s.bare) {
		if c != nil {
			errs = append(errs, c.stdin.Close())
		}
	}
	for _, c := range s.shared {
		<-c.ended // who reads has to end before Wait
	}
	for _, c := range append(s.clients, s.bare) {
		if c != nil {
			_ = c.cmd.Wait() // some servers end with an error
		}
	}
	return errors.Join(errs...)
}

// each makes a side of every server, and of the bare one where that can do it.
func (s *site) each(withBare bool, op func(one *fileServer, c *stdioClient) func() error) []*sided {
	var sides []*sided
	for i, one := range s.servers {
		sides = append(sides, &sided{name: one.name, op: op(one, s.clients[i])})
	}
	if withBare {
		sides = append(sides, &sided{name: s.bareOps.name, op: op(s.bareOps, s.bare)})
	}
	return sides
}

// asked makes a call and takes its answer for good if it has so many bytes and
// tells of no error.
func asked(one *fileServer, c *stdioClient, what call, least int) ([]byte, error) {
	answer, err := c.do(what)
	if err == nil && (len(answer) < least || one.refused(answer[max(0, len(answer)-4096):])) {
		err = fmt.Errorf("%s answered %.600s", what.tool, answer)
	}
	return answer, err
}

func (s *site) reads(name, file string, size int) row {
	path := filepath.Join(s.dir, file)
	return row{name: name, goal: 1.25, against: s.bareOps.name, sides: s.each(true, func(one *fileServer, c *stdioClient) func() error {
		return func() error {
			_, err := asked(one, c, one.read(path), size)
			return err
		}
	})}
}

func (s *site) writes() row {
	data := text(small)
	n := 0
	path := func() string {
		n++
		return filepath.Join(s.dir, "writes", fmt.Sprintf("file%d.txt", n))
	}
	sides := s.each(true, func(one *fileServer, c *stdioClient) func() error {
		return func() error {
			_, err := asked(one, c, one.write(path(), data), 1)
			return err
		}
	})
	floor := &sided{name: theFloor, op: func() error { return durable(path(), []byte(data)) }}
	return row{name: "write 1 KB, new file", goal: 2, against: theFloor, sides: append(sides, floor)}
}

// edits changes one line in the middle there and back, in a file for each side.
func (s *site) edits(name string, size int, goal float64) row {
	data := text(size)
	lines := strings.Count(data, "\n")
	words := [2]string{fmt.Sprintf("\", %d); err", lines/2), fmt.Sprintf("\", %d); bad", lines/2)}
	file := func(side string) string { return filepath.Join(s.dir, "edits", fmt.Sprintf("%s-%d.txt", side, size)) }
	turned := func(n *int) (before, after string) {
		before, after = words[*n%2], words[(*n+1)%2]
		*n++
		return before, after
	}
	sides := s.each(true, func(one *fileServer, c *stdioClient) func() error {
		path, hash, n := file(one.name), "", 0
		return func() error {
			if n == 0 {
				if err := os.WriteFile(path, []byte(data), 0o644); err != nil {
					return err
				}
				answer, err := asked(one, c, one.read(path), size)
				if err != nil {
					return err
				}
				hash = hashIn(answer)
			}
			before, after := turned(&n)
			answer, err := asked(one, c, one.edit(path, before, after, hash), 1)
			hash = hashIn(answer)
			return err
		}
	})
	path, n := file(theFloor), 0
	floor := &sided{name: theFloor, op: func() error {
		if n == 0 {
			if err := os.WriteFile(path, []byte(data), 0o644); err != nil {
				return err
			}
		}
		before, after := turned(&n)
		return durableEdit(path, before, after)
	}}
	return row{name: name, goal: goal, against: theFloor, sides: append(sides, floor)}
}

func (s *site) lists(name, sub string, goal float64, recursive bool) row {
	dir := filepath.Join(s.dir, sub)
	sides := s.each(false, func(one *fileServer, c *stdioClient) func() error {
		what := one.list(dir)
		if recursive {
			what = one.tree(dir)
		}
		return func() error {
			answer, err := asked(one, c, what, 1000)
			if err == nil && one.name == ours && bytes.Contains(answer[len(answer)-512:], []byte(`"truncated":true`)) {
				err = errors.New("the listing is not whole")
			}
			return err
		}
	})
	floor := &sided{name: theFloor, op: func() error { return walk(dir, recursive) }}
	return row{name: name, goal: goal, against: theFloor, sides: append(sides, floor)}
}

// duringRow is a small read alone and while a long listing runs on the same
// connection.
type duringRow struct {
	name         string
	idle, during sample
}

func (s *site) readsDuringList(ctx context.Context, e effort) ([]duringRow, error) {
	path, tree := filepath.Join(s.dir, "small.txt"), filepath.Join(s.dir, "tree")
	var out []duringRow
	for i, one := range s.servers {
		c := s.shared[i]
		r := duringRow{name: one.name}
		read := func(to *sample) error {
			begin := time.Now()
			answer, err := c.do(ctx, one.read(path))
			if err == nil && len(answer) < small {
				err = fmt.Errorf("unexpected answer: %.300s", answer)
			}
			to.times = append(to.times, time.Since(begin))
			return err
		}
		begin := time.Now()
		for lists := 0; lists < e.fileRounds && (lists == 0 || time.Since(begin) < 4*time.Second); lists++ {
			for range 20 {
				if err := read(&r.idle); err != nil {
					return nil, err
				}
			}
			listed, err := c.send(one.tree(tree))
			if err != nil {
				return nil, err
			}
			for done := false; !done; {
				if err := read(&r.during); err != nil {
					return nil, err
				}
				select {
				case <-listed:
					done = true
				default:
				}
			}
		}
		out = append(out, r)
	}
	return out, nil
}

// sizeRow is how many bytes an agent reads or writes.
type sizeRow struct {
	name  string
	bytes int
	goal  int
}

// sizes counts what a late caller gets who edits a large file in which one line
// has changed.
func (s *site) sizes() ([]sizeRow, error) {
	one, c := s.servers[0], s.clients[0]
	path := filepath.Join(s.dir, "edits", "late.txt")
	data := text(large)
	if err := os.WriteFile(path, []byte(data), 0o644); err != nil {
		return nil, err
	}
	answer, err := asked(one, c, one.read(path), large)
	if err != nil {
		return nil, err
	}
	hash := hashIn(answer)
	edit := func(line int, mode string) (call, int, error) {
		what := one.edit(path, fmt.Sprintf("\", %d); err", line), fmt.Sprintf("\", %d); bad", line), hash)
		what.args["on_contention"] = mode
		answer, err := c.do(what)
		request, _ := what.request(7)
		return what, len(request) + len(structured(answer)), err
	}
	if _, _, err := edit(500, "fail"); err != nil { // somebody else, who is first
		return nil, err
	}
	what, _, err := edit(900, "fail")
	if err != nil {
		return nil, err
	}
	if answer, err = c.do(what); err != nil {
		return nil, err
	}
	if !bytes.Contains(answer, []byte(`"status":"contention"`)) {
		return nil, fmt.Errorf("no contention: %.300s", answer)
	}
	late := len(structured(answer))
	_, merged, err := edit(900, "merge")
	return []sizeRow{
		{"contention answer, one changed line in a file of 1 MB", late, 2 << 10},
		{"contested edit with merge in that file, request and answer", merged, 3 << 10},
	}, err
}

// structured is the body of an answer of ours, which also comes as text.
func structured(answer []byte) []byte {
	_, body, _ := bytes.Cut(answer, []byte(`"structuredContent":`))
	body, _, _ = bytes.Cut(body, []byte(`,"isError":`))
	return body
}

// held is what it takes to get and give back a lock that nobody else wants.
type held struct {
	took   time.Duration // in the fastest of many batches: the others were interrupted
	allocs float64
}

func hold() (out held) {
	var table lock.Table
	r := lock.Request{
		Mode: lock.Exclusive, Keys: []lock.Key{"/home/user/project/internal/file.go"},
		Owner: lock.Owner{Op: "update", Caller: "agent", Session: "s1"},
	}
	once := func() {
		lease, err := table.Hold(context.Background(), r)
		if err != nil {
			panic(err) // nobody else has it
		}
		lease.Release()
	}
	out.took = time.Hour
	const batches, size = 200, 5000
	for range batches {
		begin := time.Now()
		for range size {
			once()
		}
		out.took = min(out.took, time.Since(begin)/size)
	}
	out.allocs = testing.AllocsPerRun(size, once)
	return out
}

// hostile is the longest of several texts of 30,000 lines against another on
// which a careless comparison takes for ever.
func hostile() time.Duration {
	const n = 30_000
	lines := func(line func(i int) string) []byte {
		var b bytes.Buffer
		for i := range n {
			b.WriteString(line(i) + "\n")
		}
		return b.Bytes()
	}
	scattered := func(seed, kinds uint32) []byte {
		x := seed
		return lines(func(int) string {
			x ^= x << 13
			x ^= x >> 17
			x ^= x << 5
			return string(rune('a' + x%kinds))
		})
	}
	var worst time.Duration
	for _, pair := range [][2][]byte{
		{scattered(1, 2), scattered(2, 2)},
		{scattered(3, 20), scattered(4, 20)},
		{lines(func(i int) string { return fmt.Sprint(i) }), lines(func(i int) string { return fmt.Sprint(n - i) })},
		{lines(func(i int) string { return fmt.Sprint(i % 97) }), lines(func(i int) string { return fmt.Sprint(i % 101) })},
	} {
		begin := time.Now()
		diff.Lines(pair[0], pair[1])
		worst = max(worst, time.Since(begin))
	}
	return worst
}
