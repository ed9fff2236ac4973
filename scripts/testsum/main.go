// Command testsum runs `go test` with its own arguments and sums it up: a line per package as go test
// prints it, the whole output of what failed, and at the end what was skipped and
// why, then "N passed, N failed, N skipped".
//
// It runs with the race detector where there is a C compiler, and says so where
// there is none. When CI is set, a skipped test is a failure, unless its reason
// begins with "registry unreachable:".
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
)

func main() {
	ok, err := run(os.Args[1:], os.Getenv("CI") != "", os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "testsum:", err)
	}
	if err != nil || !ok {
		os.Exit(1)
	}
}

func run(args []string, strict bool, w io.Writer) (ok bool, err error) {
	cgo, err := exec.Command("go", "env", "CGO_ENABLED").Output()
	if err != nil {
		return false, fmt.Errorf("go env: %w", err)
	}
	goArgs := []string{"test", "-json"}
	race := strings.TrimSpace(string(cgo)) == "1"
	if race {
		goArgs = append(goArgs, "-race")
	}
	cmd := exec.Command("go", append(goArgs, args...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return false, err
	}
	if err := cmd.Start(); err != nil {
		return false, err
	}
	s := newSummary(w)
	if err := s.read(out); err != nil {
		return false, err
	}
	waitErr := cmd.Wait()
	if !race {
		fmt.Fprintln(w, "\nThe race detector was off: it needs a C compiler, and there is none.")
	}
	return s.close(strict) && waitErr == nil, nil
}

// event is one record of go test's JSON stream.
type event struct {
	Action      string
	Package     string
	Test        string
	Output      string
	ImportPath  string // of a build's output
	FailedBuild string
}

// summary follows the stream. Output is kept until its package ends.
type summary struct {
	w       io.Writer
	output  map[string]map[string]*testOutput // package, then test ("" for the package's own)
	build   map[string]*strings.Builder       // by import path
	passed  int
	failed  int
	skipped []skip
	notes   []string
}

type testOutput struct {
	strings.Builder
	end string // "pass", "fail" or "skip"; "" when it never ended
}

type skip struct{ pkg, test, reason string }

func newSummary(w io.Writer) *summary {
	return &summary{
		w:      w,
		output: make(map[string]map[string]*testOutput),
		build:  make(map[string]*strings.Builder),
	}
}

func (s *summary) read(r io.Reader) error {
	in := bufio.NewReader(r)
	for {
		line, err := in.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if json.Unmarshal(line, &e) != nil {
				fmt.Fprintf(s.w, "%s", line) // not from the test2json stream; a person may need it
			} else {
				s.take(e)
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (s *summary) take(e event) {
	switch e.Action {
	case "output":
		s.keep(e)
	case "build-output":
		if s.build[e.ImportPath] == nil {
			s.build[e.ImportPath] = new(strings.Builder)
		}
		s.build[e.ImportPath].WriteString(e.Output)
	case "pass", "fail", "skip":
		if e.Test == "" {
			s.endPackage(e)
			return
		}
		out := s.of(e)
		switch e.Action {
		case "pass":
			s.passed++
			s.note(out.String())
		case "fail":
			s.failed++
		case "skip":
			s.skipped = append(s.skipped, skip{e.Package, e.Test, reason(out.String())})
		}
		out.end = e.Action
	}
}

// keep takes output without the marks by which a test binary sets its own lines
// apart from what tests print.
func (s *summary) keep(e event) {
	s.of(e).WriteString(strings.ReplaceAll(e.Output, "\x16", ""))
}

// of returns what the test of e, or its package, has printed so far.
func (s *summary) of(e event) *testOutput {
	tests := s.output[e.Package]
	if tests == nil {
		tests = make(map[string]*testOutput)
		s.output[e.Package] = tests
	}
	if tests[e.Test] == nil {
		tests[e.Test] = new(testOutput)
	}
	return tests[e.Test]
}

var noted = regexp.MustCompile(`(?m)^\s+\S+\.go:\d+: note: (.*)$`)

// note keeps what a passing test wants a person to see.
func (s *summary) note(output string) {
	for _, m := range noted.FindAllStringSubmatch(output, -1) {
		s.notes = append(s.notes, m[1])
	}
}

// verdict matches the lines with which go test closes a package.
var verdict = regexp.MustCompile(`(?m)^(ok  |FAIL|\?   |---)\t.*\n`)

// endPackage prints what a package had to say: its verdict, and when that is bad,
// the output of the tests that failed, never ended, or raced.
func (s *summary) endPackage(e event) {
	tests := s.output[e.Package]
	delete(s.output, e.Package)
	var own string
	if out := tests[""]; out != nil {
		own = out.String()
		delete(tests, "")
	}
	if e.Action != "fail" {
		fmt.Fprint(s.w, strings.Join(verdict.FindAllString(own, -1), ""))
		return
	}
	if b := s.build[e.FailedBuild]; b != nil {
		fmt.Fprint(s.w, b.String())
	}
	failed := false
	for _, name := range slices.Sorted(maps.Keys(tests)) {
		out := tests[name]
		failed = failed || out.end == "fail"
		// A race that is noticed between tests fails the package and no test.
		if out.end == "fail" || out.end == "" || strings.Contains(out.String(), "WARNING: DATA RACE") {
			fmt.Fprint(s.w, out.String())
		}
	}
	if !failed {
		s.failed++ // it did not build, died, raced or leaked
	}
	fmt.Fprint(s.w, own)
	if !verdict.MatchString(own) {
		fmt.Fprintf(s.w, "FAIL\t%s\n", e.Package)
	}
}

var (
	place   = regexp.MustCompile(`^\s*\S+\.go:\d+: `)
	framing = regexp.MustCompile(`^\s*(=== |--- )`)
)

// reason is what a skipped test said.
func reason(output string) string {
	var said []string
	for line := range strings.Lines(output) {
		if framing.MatchString(line) {
			continue
		}
		if text := strings.TrimSpace(place.ReplaceAllString(line, "")); text != "" {
			said = append(said, text)
		}
	}
	if len(said) == 0 {
		return "no reason given"
	}
	return strings.Join(said, " ")
}

// excused begins the reason of a skip that even a strict run lets pass.
const excused = "registry unreachable:"

// close prints the end of the report and tells whether the run was good.
func (s *summary) close(strict bool) bool {
	ok := s.failed == 0
	for _, n := range s.notes {
		fmt.Fprintln(s.w, "note:", n)
	}
	if len(s.skipped) > 0 {
		fmt.Fprintln(s.w, "\nSkipped:")
		for _, k := range s.skipped {
			fmt.Fprintf(s.w, "  %s %s: %s\n", k.pkg, k.test, k.reason)
			if strict && !strings.HasPrefix(k.reason, excused) {
				ok = false
			}
		}
		if strict && !ok && s.failed == 0 {
			fmt.Fprintln(s.w, "In CI a skipped test is a failure.")
		}
	}
	fmt.Fprintf(s.w, "\n%d passed, %d failed, %d skipped\n", s.passed, s.failed, len(s.skipped))
	return ok
}
