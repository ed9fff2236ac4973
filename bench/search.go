package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/async-crud-mcp/async-crud-mcp/internal/access"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fsys"
	"github.com/async-crud-mcp/async-crud-mcp/internal/search"
	"github.com/async-crud-mcp/async-crud-mcp/internal/watch"
)

// searchResults is what was measured of searches.
type searchResults struct {
	noRg   error // why there is no ripgrep to compare with
	rg     string
	rounds int
	trees  []*searchedTree
	absent sample // a search without a match in the large tree, end to end
	rare   sample
	server memory // of the server that has the large tree indexed
}

// searchedTree is one tree with what was measured in it.
type searchedTree struct {
	name    string
	files   int
	bytes   int64
	build   time.Duration
	index   int64  // bytes
	barrier sample // the wait for the watcher
	queries []*searchedQuery
}

// searchedQuery is one query with a time of each side for each round.
type searchedQuery struct {
	class string
	search.Request
	times [sides][]time.Duration
}

const (
	byRg = iota
	byScan
	byIndex
	byMemory
	sides
)

const (
	scanGoal, scanWorst     = 1.2, 0.85
	indexGoal, indexWorst   = 7.0, 1.0
	memoryGoal, memoryWorst = 15.0, 2.0
	rareGoal                = 100.0
	absentGoal              = 1500 * time.Microsecond
	barrierGoal             = 50 * time.Microsecond
	buildGoal               = 3 * time.Second
	indexShare              = 0.15
	residentGoal            = 250 << 20

	rareWord   = "zyxwvutsRare"
	largeFiles = 30_000
)

// queriesOf returns what is looked for. Both trees hold program text.
func queriesOf() []*searchedQuery {
	var all []*searchedQuery
	add := func(class string, r search.Request, patterns ...string) {
		for _, p := range patterns {
			r.Pattern, r.Recursive, r.MaxResults, r.Mode = p, true, 1<<30, search.Content
			all = append(all, &searchedQuery{class: class, Request: r})
		}
	}
	add("rare literal", search.Request{}, rareWord, "errUnterminatedQuotedField", "x509: too many")
	add("common literal", search.Request{}, "return nil", "context.Context", "if err != nil")
	add("word", search.Request{}, `\bsync\b`, `\bctx\b`, `\bbuf\b`)
	add("declaration", search.Request{}, `func \(\w+ \*?\w+\) Close\(`, `^type \w+ interface`, `^func Test\w+Error`)
	add("alternation", search.Request{}, `Mutex|WaitGroup|Cond`, `TODO|FIXME|BUG`, `io\.(Reader|Writer|Closer)`)
	add("any case", search.Request{CaseInsensitive: true}, "unexpected eof", "deprecated", "utf-?8")
	add("no match", search.Request{}, "qzjxkvbwqpzzy", "neverWrittenAnywhere[0-9]+")
	add("anchored", search.Request{}, `^import \(`, `\) error \{$`)
	add("no literal", search.Request{}, `[A-Z]{6,}_[A-Z]{4,}`, `[0-9]+\.[0-9]+\.[0-9]+\.[0-9]+`, `[a-f0-9]{16,}`)
	add("glob", search.Request{Glob: "**/*_test.go"}, "t.Fatal", `t\.Run\(`)
	return all
}

func measureSearch(ctx context.Context, p *programs, e effort) (*searchResults, error) {
	out := &searchResults{rounds: max(e.fileRounds/2, 10)}
	files := largeFiles
	if e.fileRounds < 10 {
		out.rounds, files = 3, largeFiles/10
	}
	dir := filepath.Join(filepath.Dir(p.root), "search")
	large := filepath.Join(dir, "large")
	if err := generate(large, files); err != nil {
		return nil, err
	}
	goroot, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return nil, err
	}
	out.rg, out.noRg = fetchRipgrep(ctx)
	for _, t := range []struct{ name, root string }{
		{"the Go tree", filepath.Join(strings.TrimSpace(string(goroot)), "src")}, {"a generated tree", large},
	} {
		tree, err := out.measureTree(ctx, t.name, t.root)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", t.name, err)
		}
		out.trees = append(out.trees, tree)
	}
	return out, out.endToEnd(ctx, p, large)
}

// fetchRipgrep installs ripgrep into the cache folder, once.
func fetchRipgrep(ctx context.Context) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	at := filepath.Join(cache, "async-crud-mcp", "bench", "ripgrep")
	err = once(at, "package.json", `{"private": true, "dependencies": {"@vscode/ripgrep": "1.18.0"}}`+"\n", func(at string) error {
		cmd := exec.CommandContext(ctx, "npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error")
		cmd.Dir = at
		return quietly(cmd)
	})
	if err != nil {
		return "", err
	}
	found, err := filepath.Glob(filepath.Join(at, "node_modules/@vscode/ripgrep-*/bin/rg"))
	if err == nil && len(found) == 0 {
		err = errors.New("there is none for this machine")
	}
	if err != nil {
		return "", err
	}
	return found[0], nil
}

// generate writes a tree of program text: few words are common, most are rare.
func generate(root string, files int) error {
	rng := rand.New(rand.NewPCG(7, 11))
	common := strings.Fields("err ctx nil return if func error string int byte context.Context sync.Mutex buf name t.Fatal t.Run( io.Reader io.Writer Close deprecated UTF-8 TODO value len range type struct")
	words := make([]string, 20_000)
	for i := range words {
		var b strings.Builder
		for range 2 + rng.IntN(3) {
			b.WriteByte("BCDFGHLMNPRSTW"[rng.IntN(14)])
			b.WriteString([]string{"a", "e", "i", "o", "u", "ai", "er", "on"}[rng.IntN(8)])
			b.WriteByte("lmnrst"[rng.IntN(6)])
		}
		words[i] = b.String()
	}
	zipf := rand.NewZipf(rng, 1.1, 4, uint64(len(words)-1))
	word := func() string {
		if rng.IntN(25) == 0 {
			return common[rng.IntN(len(common))]
		}
		return words[zipf.Uint64()]
	}
	var b bytes.Buffer
	for i := range files {
		dir := filepath.Join(root, fmt.Sprintf("m%02d/p%03d/s%d", i%40, i%600, i%6000/600))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		b.Reset()
		fmt.Fprintf(&b, "package p%d\n\nimport (\n\t%q\n)\n\n", i%600, word())
		size := 2000 + rng.IntN(12_000)
		for b.Len() < size {
			switch rng.IntN(40) {
			case 0:
				fmt.Fprintf(&b, "func (%s *%s) %s(ctx context.Context, %s %s) error {\n", "r", word(), word(), word(), word())
			case 1:
				fmt.Fprintf(&b, "\tif err != nil {\n\t\treturn nil, fmt.Errorf(\"%s %s: %%w\", err)\n\t}\n", word(), word())
			case 2:
				fmt.Fprintf(&b, "\t// %s %s %s %s %s\n", word(), word(), word(), word(), word())
			case 3:
				fmt.Fprintf(&b, "}\n\ntype %s interface {\n\t%s(%s) %d\n}\n\n", word(), word(), word(), rng.IntN(100000))
			default:
				fmt.Fprintf(&b, "\t%s := %s.%s(%s, %d, \"%s %s\")\n", word(), word(), word(), word(), rng.IntN(1000), word(), word())
			}
		}
		if i == files/2 {
			b.WriteString("// " + rareWord + "\n")
		}
		name := fmt.Sprintf("f%05d.go", i)
		if i%5 == 0 {
			name = fmt.Sprintf("f%05d_test.go", i)
		}
		if err := os.WriteFile(filepath.Join(dir, name), b.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// measureTree runs all queries on one tree, each side in turn.
func (r *searchResults) measureTree(ctx context.Context, name, root string) (*searchedTree, error) {
	root, err := fsys.ResolveDir(root)
	if err != nil {
		return nil, err
	}
	t := &searchedTree{name: name, queries: queriesOf()}
	err = filepath.WalkDir(root, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			info, infoErr := d.Info()
			if infoErr != nil {
				return infoErr
			}
			t.files++
			t.bytes += info.Size()
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	bases, err := fsys.OpenBases(root, nil)
	if err != nil {
		return nil, err
	}
	defer bases.Close()
	rules, err := access.New(access.Options{})
	if err != nil {
		return nil, err
	}
	scope := &search.Scope{Root: root, Bases: bases, Rules: rules, Limits: search.Limits{
		MaxResults: 1 << 30, MaxFileSize: 10 << 20, Timeout: time.Hour, RespectIgnore: true,
	}}
	ctx, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	tree := watch.NewTree(root, watch.TreeOptions{Skip: search.Unwatched, Passing: true})
	options := search.Options{
		Scope: func(context.Context) (*search.Scope, error) { return scope, nil }, CountFor: time.Hour,
		Tree: func(string) *watch.Tree { return tree },
	}
	var engines [sides]*search.Engine
	engines[byScan] = search.New(search.Options{Scope: options.Scope, CountFor: time.Hour})
	options.ContentBytes = -1
	engines[byIndex] = search.New(options)
	options.ContentBytes = 1 << 30
	engines[byMemory] = search.New(options)
	running.Go(func() {
		_ = tree.Run(ctx, func(c []watch.Change) { // it ends with ctx
			engines[byIndex].Noticed(root, c)
			engines[byMemory].Noticed(root, c)
		})
	})
	if err := tree.Sync(ctx); err != nil {
		return nil, err
	}
	for _, side := range []int{byMemory, byIndex} {
		running.Go(func() { _ = engines[side].Run(ctx) }) // it ends with ctx
		if _, err := engines[side].Search(ctx, t.queries[0].Request); err != nil {
			return nil, err
		}
		begin := time.Now()
		for engines[side].Stats().Ready == 0 {
			if err := ctx.Err(); err != nil || time.Since(begin) > 5*time.Minute {
				return nil, errors.Join(err, errors.New("the index does not become ready"))
			}
			time.Sleep(time.Millisecond)
		}
		if side == byIndex {
			t.build = time.Since(begin)
		}
	}
	time.Sleep(time.Second) // it tidies up
	t.index = engines[byIndex].Stats().Index
	for range 2000 {
		begin := time.Now()
		if err := tree.Sync(ctx); err != nil {
			return nil, err
		}
		t.barrier.times = append(t.barrier.times, time.Since(begin))
	}
	for _, q := range t.queries {
		if err := r.measureQuery(ctx, root, q, engines); err != nil {
			return nil, fmt.Errorf("%s: %w", q.Pattern, err)
		}
	}
	return t, nil
}

func (r *searchResults) measureQuery(ctx context.Context, root string, q *searchedQuery, engines [sides]*search.Engine) error {
	for round := range r.rounds + 1 {
		var total [sides]int
		for i := range sides {
			side := (i + round) % sides // nobody is always first
			begin := time.Now()
			var err error
			if side == byRg {
				total[side], err = r.ripgrep(ctx, root, q.Request)
			} else {
				var res *search.Result
				if res, err = engines[side].Search(ctx, q.Request); err == nil {
					total[side] = res.Total
				}
			}
			if err != nil {
				return err
			}
			if round > 0 { // the first is to warm up
				q.times[side] = append(q.times[side], time.Since(begin))
			}
		}
		if total[byScan] != total[byIndex] || total[byScan] != total[byMemory] {
			return fmt.Errorf("%v lines are found", total)
		}
	}
	return nil
}

// ripgrep runs rg and collects what it prints.
func (r *searchResults) ripgrep(ctx context.Context, root string, q search.Request) (lines int, err error) {
	if r.noRg != nil {
		return 0, nil
	}
	args := []string{"--no-config", "--hidden", "--no-heading", "--line-number", "--color=never", "--glob=!.git"}
	if q.CaseInsensitive {
		args = append(args, "--ignore-case")
	}
	if q.Glob != "" {
		args = append(args, "--glob="+q.Glob)
	}
	cmd := exec.CommandContext(ctx, r.rg, append(args, "-e", q.Pattern, "./")...)
	cmd.Dir = root
	printed, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() == 1 {
		err = nil // no match
	}
	return bytes.Count(printed, []byte("\n")), err
}

// endToEnd asks a server that has the tree indexed.
func (r *searchResults) endToEnd(ctx context.Context, p *programs, root string) error {
	c, err := startStdio(ctx, []string{p.ours, "stdio", "--standalone", "--root", root}, p.env)
	if err != nil {
		return err
	}
	defer func() {
		_ = c.stdin.Close()
		_ = c.cmd.Wait() // it was asked to end
	}()
	if err := c.greet(); err != nil {
		return err
	}
	ask := func(pattern string) ([]byte, error) {
		return c.do(call{"async_search", map[string]any{"pattern": pattern, "output_mode": "content"}})
	}
	for begin := time.Now(); ; {
		answer, err := ask("qzjxkvbwqpzzy")
		if err != nil {
			return err
		}
		if bytes.Contains(answer, []byte(`"source":"index"`)) || bytes.Contains(answer, []byte(`\"source\":\"index\"`)) {
			break
		}
		if time.Since(begin) > 5*time.Minute {
			return fmt.Errorf("after five minutes: %.300s", answer)
		}
		time.Sleep(100 * time.Millisecond)
	}
	time.Sleep(3 * time.Second) // it tidies up
	for range 200 {
		for pattern, s := range map[string]*sample{"qzjxkvbwqpzzy": &r.absent, rareWord: &r.rare} {
			begin := time.Now()
			if _, err := ask(pattern); err != nil {
				return err
			}
			s.times = append(s.times, time.Since(begin))
		}
	}
	r.server = memoryOf(c.pid())
	return nil
}

// faster is how many times faster than ripgrep a side is, as the median of the
// rounds.
func (q *searchedQuery) faster(side int) float64 {
	var all []float64
	for i, took := range q.times[side] {
		all = append(all, float64(q.times[byRg][i])/float64(took))
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// among returns the geometric mean and the least of some queries.
func among(queries []*searchedQuery, side int, class ...string) (mean, least float64) {
	sum, n := 0.0, 0
	least = math.Inf(1)
	for _, q := range queries {
		if len(class) > 0 && !slices.Contains(class, q.class) {
			continue
		}
		f := q.faster(side)
		sum += math.Log(f)
		least = min(least, f)
		n++
	}
	return math.Exp(sum / float64(n)), least
}

func (r *searchResults) write(line func(format string, args ...any)) {
	line("")
	line("## Search")
	line("")
	line("`rg` %s, spawned and its output collected, beside our engine in this process, %d rounds in turn, all matching lines; how many times faster ours is, the median of the rounds. *scan* reads all files, *index* those that may match, *memory* none. A search waits for everything that happened before it.", "from `@vscode/ripgrep` 1.18.0", r.rounds)
	if r.noRg != nil {
		line("")
		line("There was no ripgrep: %v.", r.noRg)
	}
	for _, t := range r.trees {
		line("")
		line("### In %s: %d files, %d MiB", t.name, t.files, t.bytes>>20)
		if r.noRg == nil {
			t.writeRatios(line)
		}
		line("")
		line("| | | goal |")
		line("|---|---:|---|")
		line("| to build the index | %s | %s |", ms(t.build), verdict(t.build <= buildGoal, "≤ %s", ms(buildGoal)))
		line("| its size, of the source | %.1f MiB, %.1f %% | %s |", float64(t.index)/(1<<20), 100*float64(t.index)/float64(t.bytes),
			verdict(float64(t.index) <= indexShare*float64(t.bytes), "≤ %.0f %%", 100*indexShare))
		line("| wait for the watcher, median | %s | %s |", ms(t.barrier.median()), verdict(t.barrier.median() <= barrierGoal, "≤ %s", ms(barrierGoal)))
		line("| the same, p99 | %s | |", ms(t.barrier.quantile(0.99)))
	}
	line("")
	line("### Through the server, in the generated tree")
	line("")
	line("| | median | p99 | goal |")
	line("|---|---:|---:|---|")
	line("| no match | %s | %s | %s |", ms(r.absent.median()), ms(r.absent.quantile(0.99)), verdict(r.absent.median() <= absentGoal, "≤ %s", ms(absentGoal)))
	line("| a rare word | %s | %s | |", ms(r.rare.median()), ms(r.rare.quantile(0.99)))
	line("| resident after that | %s | | %s |", r.server, verdict(r.server.resident <= residentGoal, "≤ %d MiB", residentGoal>>20))
}

func (t *searchedTree) writeRatios(line func(format string, args ...any)) {
	line("")
	line("| queries | rg, median | scan | index | memory |")
	line("|---|---:|---:|---:|---:|")
	var classes []string
	for _, q := range t.queries {
		if !slices.Contains(classes, q.class) {
			classes = append(classes, q.class)
		}
	}
	for _, class := range classes {
		var s sample
		for _, q := range t.queries {
			if q.class == class {
				s.times = append(s.times, q.times[byRg]...)
			}
		}
		cells := []any{class, ms(s.median())}
		for side := byScan; side < sides; side++ {
			mean, _ := among(t.queries, side, class)
			cells = append(cells, mean)
		}
		line("| %s | %s | %.3g× | %.3g× | %.3g× |", cells...)
	}
	means, worst, goals, worstGoals := "| **all, geometric mean** | |", "| **worst query** | |", "| goal | |", "| goal for the worst | |"
	for side, goal := range [][2]float64{byScan: {scanGoal, scanWorst}, byIndex: {indexGoal, indexWorst}, byMemory: {memoryGoal, memoryWorst}} {
		if side == byRg {
			continue
		}
		mean, least := among(t.queries, side)
		means += fmt.Sprintf(" **%.3g×** |", mean)
		worst += fmt.Sprintf(" %.3g× |", least)
		goals += " " + verdict(mean >= goal[0], "≥ %.3g×", goal[0]) + " |"
		worstGoals += " " + verdict(least >= goal[1], "≥ %.3g×", goal[1]) + " |"
	}
	for _, text := range []string{means, goals, worst, worstGoals} {
		line("%s", text)
	}
	if t.files < largeFiles {
		return
	}
	_, indexed := among(t.queries, byIndex, "rare literal", "no match")
	_, remembered := among(t.queries, byMemory, "rare literal", "no match")
	line("| worst of rare and absent text | | | %.3g× | %.3g× |", indexed, remembered)
	line("| goal for it | | | %s | %s |", verdict(indexed >= rareGoal, "≥ %.3g×", rareGoal), verdict(remembered >= rareGoal, "≥ %.3g×", rareGoal))
}
