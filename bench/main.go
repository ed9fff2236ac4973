// Command bench measures the server beside a bare one, the least that the same
// SDK needs to serve a tool that gives the same answer, and its file tools beside
// the same work without a server and beside other file servers. It builds ours
// and the bare one with the same flags, takes turns between all of them so that a
// busy machine slows all down, and writes medians and ratios, each with its goal,
// to RESULTS.md.
//
//	go run ./bench [-short] [-part server|files|shell|search] [-peers=false] [-o FILE]
//
// Read the ratios; the absolute figures belong to the machine and its load.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "bare" {
		if err := bare(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, "bare:", err)
			os.Exit(1)
		}
		return
	}
	short := flag.Bool("short", false, "few rounds: does it run at all?")
	out := flag.String("o", "bench/RESULTS.md", "where to write the results; - for standard output")
	parts := flag.String("part", "", "measure one part only: server, files, shell or search")
	peers := flag.Bool("peers", true, "measure other file servers too; they are fetched when they are not there")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	// As releases are built.
	release := []string{"-trimpath", "-ldflags", "-s -w"}
	if err := os.Setenv("CGO_ENABLED", "0"); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	if err := run(ctx, plan(*short), *parts, *peers, release, *out); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// effort says how often things are done.
type effort struct {
	starts     int  // processes started of each program
	rounds     int  // turns of each program under each load
	small      int  // calls of 1 KB in a round
	large      int  // calls of 100 KB in a round
	fileRounds int  // turns of each server with each file operation
	searches   bool // measure searches too, which takes long on any machine
}

func plan(short bool) effort {
	if short {
		return effort{starts: 5, rounds: 10, small: 20, large: 4, fileRounds: 5, searches: true}
	}
	return effort{starts: 40, rounds: 60, small: 80, large: 12, fileRounds: 25, searches: true}
}

func run(ctx context.Context, e effort, part string, withPeers bool, flags []string, out string) error {
	dir, err := os.MkdirTemp("", "acm-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	p, err := build(ctx, dir, flags)
	if err != nil {
		return err
	}
	r := &results{effort: e}
	if part == "" || part == "server" {
		if err := r.measureServer(ctx, p); err != nil {
			return err
		}
	}
	var peers *peerPrograms
	missing := errors.New("they were not asked for")
	if withPeers && part != "server" && part != "search" {
		peers, missing = fetchPeers(ctx, dir)
	}
	if part == "" || part == "files" {
		if r.files, err = measureFiles(ctx, p, peers, e); err != nil {
			return fmt.Errorf("files: %w", err)
		}
		r.files.noPeers = missing
	}
	if part == "" || part == "shell" {
		if r.shell, err = measureShell(ctx, p, peers, e); err != nil {
			return fmt.Errorf("commands: %w", err)
		}
		r.shell.noPeers = missing
	}
	if part == "" && e.searches || part == "search" {
		if r.search, err = measureSearch(ctx, p, e); err != nil {
			return fmt.Errorf("search: %w", err)
		}
	}
	text := r.markdown()
	if out == "-" {
		fmt.Print(text)
		return nil
	}
	return os.WriteFile(out, []byte(text), 0o644)
}

func (r *results) measureServer(ctx context.Context, p *programs) (err error) {
	r.server = true
	if r.starts, err = measureStarts(ctx, p, r.effort); err != nil {
		return fmt.Errorf("start-up: %w", err)
	}
	if r.list, err = measureList(ctx, p); err != nil {
		return fmt.Errorf("tools/list: %w", err)
	}
	for _, way := range ways {
		loads, err := measureLoad(ctx, p, way, r.effort)
		if err != nil {
			return fmt.Errorf("%s: %w", way.name, err)
		}
		r.loads = append(r.loads, loads...)
	}
	return nil
}

// programs are what is measured.
type programs struct {
	ours    string // as released
	oursTag string // with an echo tool
	bare    string
	root    string // a project for ours
	env     []string
}

const module = "github.com/async-crud-mcp/async-crud-mcp"

// build makes all programs with the same flags.
func build(ctx context.Context, dir string, flags []string) (*programs, error) {
	p := &programs{
		ours: filepath.Join(dir, "ours"), oursTag: filepath.Join(dir, "ours-echo"), bare: filepath.Join(dir, "bare"),
		root: filepath.Join(dir, "project"),
		env:  append(os.Environ(), "ASYNC_CRUD_MCP_HOME="+filepath.Join(dir, "home")),
	}
	if err := os.Mkdir(p.root, 0o755); err != nil {
		return nil, err
	}
	for _, b := range []struct{ out, pkg, tags string }{
		{p.ours, "/cmd/async-crud-mcp", ""},
		{p.oursTag, "/cmd/async-crud-mcp", "bench"},
		{p.bare, "/bench", ""},
	} {
		args := append([]string{"build", "-tags", b.tags, "-o", b.out}, flags...)
		cmd := exec.CommandContext(ctx, "go", append(args, module+b.pkg)...)
		if text, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("build %s: %w\n%s", b.pkg, err, strings.TrimSpace(string(text)))
		}
	}
	return p, nil
}

func (p *programs) oursStdio(exe string) []string {
	return []string{exe, "stdio", "--standalone", "--root", p.root}
}

func (p *programs) oursHTTP(exe string) []string {
	return []string{exe, "serve", "--root", p.root, "--port", "0"}
}

func (p *programs) bareStdio(answer string) []string {
	return []string{p.bare, "bare", "stdio", answer}
}

func (p *programs) bareHTTP(answer string) []string { return []string{p.bare, "bare", "http", answer} }
