package hosts

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// suite is one run of an official suite.
type suite struct {
	folder    string   // of deps.txt
	args      []string // what to run
	scenarios int      // how many that is: a run that broke off has fewer
	// unscored scenarios may fail: nobody is required to pass them.
	unscored func(scenario string) bool
	// warned maps scenarios whose warnings we accept to the reason.
	warned map[string]string
}

func TestConformanceOfEveryScenario(t *testing.T) {
	runSuite(t, suite{
		folder: "conformance01", args: []string{"--suite", "all"}, scenarios: 32,
		warned: map[string]string{
			"server-sse-polling": "this release calls with the header of 2025-03-26, which has no polling; the newer suite below proves it",
		},
	})
}

func TestConformanceOf20251125(t *testing.T) {
	runSuite(t, suite{
		folder: "conformance02", args: []string{"--spec-version", "2025-11-25", "--suite", "all"}, scenarios: 33,
	})
}

func TestConformanceOf20260728(t *testing.T) {
	runSuite(t, suite{
		folder: "conformance02", args: []string{"--requirements", "2026-07-28"}, scenarios: 50,
		unscored: func(scenario string) bool { return strings.HasPrefix(scenario, "tasks-") },
	})
}

// check is one line of a scenario's report.
type check struct {
	ID           string `json:"id"`
	Status       string `json:"status"`
	ErrorMessage string `json:"errorMessage"`
}

// stamp ends the name of a scenario's folder.
var stamp = regexp.MustCompile(`-\d{4}-\d\d-\d\dT[\d-]+Z$`)

func runSuite(t *testing.T, s suite) {
	t.Parallel()
	index := filepath.Join(installed(t, s.folder), "@modelcontextprotocol", "conformance", "dist", "index.js")
	h := &host{argv: []string{node(t), index, "server"}, dir: t.TempDir(), env: bareEnv(t, nil)}
	results := filepath.Join(h.dir, "results")
	srv := serve(t, fixtures)
	out := h.run(t, append([]string{"--url", srv.url + "/mcp", "-o", results}, s.args...)...)
	if out.code != 0 {
		t.Errorf("the suite ended with %d\n%s", out.code, head(out.stderr))
	}
	folders, err := os.ReadDir(results)
	if err != nil {
		t.Fatalf("no results: %v\n%s%s", err, out.stdout, out.stderr)
	}
	if len(folders) != s.scenarios {
		t.Errorf("%d scenarios have a result, want %d\n%s", len(folders), s.scenarios, out.stdout)
	}
	for _, f := range folders {
		scenario := stamp.ReplaceAllString(strings.TrimPrefix(f.Name(), "server-"), "")
		t.Run(scenario, func(t *testing.T) {
			s.judge(t, scenario, filepath.Join(results, f.Name(), "checks.json"))
		})
	}
}

// judge reads a scenario's report: failures fail, warnings fail unless they are
// known, the counts are logged.
func (s suite) judge(t *testing.T, scenario, report string) {
	b, err := os.ReadFile(report)
	if err != nil {
		t.Fatal(err)
	}
	var checks []check
	if err := json.Unmarshal(b, &checks); err != nil {
		t.Fatal(err)
	}
	count := make(map[string]int)
	for _, c := range checks {
		count[c.Status]++
		switch c.Status {
		case "FAILURE":
			if s.unscored != nil && s.unscored(scenario) {
				continue
			}
			t.Errorf("%s: %s", c.ID, c.ErrorMessage)
		case "WARNING":
			if reason := s.warned[scenario]; reason != "" {
				t.Logf("%s: %s (%s)", c.ID, c.ErrorMessage, reason)
				continue
			}
			t.Errorf("%s warns: %s", c.ID, c.ErrorMessage)
		}
	}
	t.Logf("%d passed, %d failed, %d warned, %d skipped", count["SUCCESS"], count["FAILURE"], count["WARNING"], count["SKIPPED"])
	if len(checks) == 0 {
		t.Error("no check was made")
	}
}
