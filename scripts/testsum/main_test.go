package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A module with every way a test can end.
func module(t *testing.T, files map[string]string) {
	t.Helper()
	dir := t.TempDir()
	files["go.mod"] = "module example.com/m\n\ngo 1.26\n"
	for name, text := range files {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	t.Setenv("GOFLAGS", "-vet=off")
	t.Setenv("GOWORK", "off")
	t.Setenv("CGO_ENABLED", "0") // the race detector is not what is tested here
}

const good = `package good
import "testing"
func TestPasses(t *testing.T) { t.Log("quiet"); t.Log("note: look here") }
func TestSkips(t *testing.T) { t.Skip("no such program") }
func TestNet(t *testing.T) { t.Run("sub", func(t *testing.T) { t.Skip("registry unreachable: timeout") }) }
`

func TestRunTellsHowEveryTestEnded(t *testing.T) {
	module(t, map[string]string{
		"good/x_test.go":   good,
		"bad/x_test.go":    "package bad\nimport \"testing\"\nfunc TestFails(t *testing.T) { t.Error(\"got 1, want 2\") }\nfunc TestFine(t *testing.T) { t.Log(\"unseen\") }\n",
		"broken/x.go":      "package broken\nvar x int = \"\"\n",
		"broken/x_test.go": "package broken\nimport \"testing\"\nfunc TestNever(t *testing.T) {}\n",
		"dies/x_test.go":   "package dies\nimport (\"testing\"; \"os\")\nfunc TestDies(t *testing.T) { os.Exit(3) }\n",
		"plain/x.go":       "package plain\n",
	})
	var out strings.Builder
	ok, err := run([]string{"./..."}, false, &out)
	if err != nil || ok {
		t.Fatalf("run = %v, %v; want a failed run\n%s", ok, err, &out)
	}
	for _, want := range []string{
		"ok  \texample.com/m/good\t",
		"?   \texample.com/m/plain\t[no test files]",
		"got 1, want 2",
		"--- FAIL: TestFails",
		"FAIL\texample.com/m/bad\t",
		"cannot use \"\"",
		"FAIL\texample.com/m/broken [build failed]",
		"FAIL\texample.com/m/dies",
		"note: look here\n",
		"  example.com/m/good TestSkips: no such program\n",
		"  example.com/m/good TestNet/sub: registry unreachable: timeout\n",
		"The race detector was off",
		"\n3 passed, 3 failed, 2 skipped\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("output lacks %q", want)
		}
	}
	for _, leave := range []string{"unseen", "quiet"} {
		if strings.Contains(out.String(), leave) {
			t.Errorf("output shows %q of a passing test", leave)
		}
	}
	if t.Failed() {
		t.Log(out.String())
	}
}

func TestSkipsFailAStrictRunUnlessTheRegistryWasSilent(t *testing.T) {
	tests := []struct {
		name, only string
		strict, ok bool
	}{
		{"lenient", ".", false, true},
		{"strict with a plain skip", ".", true, false},
		{"strict with an excused skip", "TestPasses|TestNet", true, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			module(t, map[string]string{"good/x_test.go": good})
			var out strings.Builder
			ok, err := run([]string{"-run", tt.only, "./..."}, tt.strict, &out)
			if err != nil || ok != tt.ok {
				t.Errorf("run = %v, %v; want %v\n%s", ok, err, tt.ok, &out)
			}
			if says := strings.Contains(out.String(), "In CI a skipped test is a failure."); says == tt.ok {
				t.Errorf("a failure by skips alone must be explained:\n%s", &out)
			}
		})
	}
}

// go test -json of a package in which a goroutine of an ended test raced with the
// test after it: every test passes, the package fails.
const raced = `{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"=== RUN   TestA\n"}
{"Action":"output","Package":"p","Test":"TestA","Output":"WARNING: DATA RACE\n"}
{"Action":"output","Package":"p","Test":"TestA","Output":"--- PASS: TestA (0.00s)\n"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"run","Package":"p","Test":"TestB"}
{"Action":"output","Package":"p","Test":"TestB","Output":"unseen\n"}
{"Action":"pass","Package":"p","Test":"TestB"}
{"Action":"output","Package":"p","Output":"FAIL\n"}
{"Action":"output","Package":"p","Output":"FAIL\tp\t0.1s\n"}
{"Action":"fail","Package":"p"}
`

func TestARaceBetweenTestsIsShown(t *testing.T) {
	var out strings.Builder
	s := newSummary(&out)
	if err := s.read(strings.NewReader(raced)); err != nil {
		t.Fatal(err)
	}
	if s.close(false) {
		t.Error("the run counts as good")
	}
	for _, want := range []string{"WARNING: DATA RACE", "FAIL\tp\t0.1s\n", "\n2 passed, 1 failed, 0 skipped\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("output lacks %q:\n%s", want, &out)
		}
	}
	if strings.Contains(out.String(), "unseen") {
		t.Errorf("output shows a test that had no part in it:\n%s", &out)
	}
}

func TestReasonOfASkipIsWhatTheTestSaid(t *testing.T) {
	stream := `{"Action":"output","Package":"p","Test":"TestA","Output":"\u0016=== RUN   TestA\n"}
{"Action":"output","Package":"p","Test":"TestA","Output":"    a_test.go:12: no such\n"}
{"Action":"output","Package":"p","Test":"TestA","Output":"        program\n"}
{"Action":"output","Package":"p","Test":"TestA","Output":"--- SKIP: TestA (0.00s)\n"}
{"Action":"skip","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Output":"ok  \tp\t0.1s\n"}
{"Action":"pass","Package":"p"}
`
	var out strings.Builder
	s := newSummary(&out)
	if err := s.read(strings.NewReader(stream)); err != nil {
		t.Fatal(err)
	}
	s.close(false)
	if want := "  p TestA: no such program\n"; !strings.Contains(out.String(), want) {
		t.Errorf("output lacks %q:\n%s", want, &out)
	}
}

func TestATimeoutShowsTheTestThatHung(t *testing.T) {
	module(t, map[string]string{
		"hangs/x_test.go": "package hangs\nimport \"testing\"\nfunc TestHangs(t *testing.T) { t.Log(\"waiting\"); select {} }\n",
	})
	var out strings.Builder
	ok, err := run([]string{"-timeout", "1s", "./..."}, false, &out)
	if err != nil || ok {
		t.Fatalf("run = %v, %v; want a failed run", ok, err)
	}
	for _, want := range []string{"TestHangs", "test timed out after 1s", "0 passed, 1 failed, 0 skipped"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("output lacks %q:\n%s", want, &out)
		}
	}
}
