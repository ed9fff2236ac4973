package catalog_test

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

var update = flag.Bool("update", false, "rewrite golden files")

// TestDialogues runs every testdata/dialogues/*.txtar: a conversation of one
// session with the tools, word for word.
//
//	free text that says what is shown
//	-- project/a.txt --        a file in the project before the first call
//	-- home/config.json --     a file in the user's own directory
//	-- 1 crud_activate_project --
//	{"path": "$ROOT"}          a call: its place in the conversation, the tool, the arguments
//	-- 1 answer --
//	{"status": "ok", …}        what comes back
//	-- after/a.txt --          a file in the project after the last call
//
// In calls $HASH is the hash in the first answer, $NOW that of a.py at the moment.
// In calls and answers $ROOT is the project, $HOME the user's directory, $ID
// the project's id; in answers $TIME stands for any timestamp and
// $OTHER_ID for the id of any other project. $JOB is the job started last, and
// what took time has taken 0.
func TestDialogues(t *testing.T) {
	files, err := filepath.Glob("testdata/dialogues/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no dialogues: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) { runDialogue(t, file) })
	}
}

func runDialogue(t *testing.T, file string) {
	archive, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t)
	for _, f := range archive.Files {
		if rel, ok := strings.CutPrefix(f.Name, "project/"); ok {
			w.write(filepath.Join(w.root, rel), f.Data)
		} else if rel, ok := strings.CutPrefix(f.Name, "home/"); ok {
			w.write(filepath.Join(w.home, rel), []byte(w.expand(string(f.Data))))
		}
	}
	w.start(strings.Fields(commentLine(archive.Comment, "flags:"))...)
	var out []txtar.File
	var answer string // to the call before
	first := ""       // hash in the first answer that has one
	job := ""         // started last
	for _, f := range archive.Files {
		n, name, ok := strings.Cut(f.Name, " ")
		switch {
		case ok && name == "answer":
			if want := string(f.Data); answer != want && !*update {
				t.Errorf("answer %s differs:\n%s", n, lineDiff(want, answer))
			}
			f.Data = []byte(answer)
		case ok:
			args := strings.NewReplacer("$HASH", first, "$NOW", w.hash("a.py"), "$JOB", job).Replace(w.expand(string(f.Data)))
			res := w.call(name, args)
			answer = w.normalise(res.Body)
			if id := anyJob.FindString(string(res.Body)); id != "" {
				job = id
			}
			if m := anyHash.FindStringSubmatch(answer); m != nil && first == "" {
				first = m[1]
			}
		case strings.HasPrefix(f.Name, "after/"):
			got, err := os.ReadFile(filepath.Join(w.root, strings.TrimPrefix(f.Name, "after/")))
			if err != nil && !*update {
				t.Errorf("%s: %v", f.Name, err)
			} else if !bytes.Equal(got, f.Data) && !*update {
				t.Errorf("%s differs:\n%s", f.Name, lineDiff(string(f.Data), string(got)))
			}
			f.Data = got
		}
		out = append(out, f)
	}
	if *update {
		if err := os.WriteFile(file, txtar.Format(&txtar.Archive{Comment: archive.Comment, Files: out}), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func commentLine(comment []byte, prefix string) string {
	for line := range strings.Lines(string(comment)) {
		if rest, ok := strings.CutPrefix(line, prefix); ok {
			return rest
		}
	}
	return ""
}

var timestamp = regexp.MustCompile(`"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"`)

// otherID is the id of a project that is not $ROOT.
var otherID = regexp.MustCompile(`"p[0-9a-f]{12}"`)

// anyJob is the id of a job, took the time that something needed.
var (
	anyJob = regexp.MustCompile(`job_[0-9a-z]{26}`)
	took   = regexp.MustCompile(`"(duration_ms|durationMs|duration_secs|waited_seconds|started_at_unix)": [0-9.e+-]+`)
)

var anyHash = regexp.MustCompile(`"hash": "(sha256:[0-9a-f]{64})"`)

// hash returns the hash of a project file as it is now, or "".
func (w *world) hash(name string) string {
	raw, err := os.ReadFile(filepath.Join(w.root, name))
	if err != nil {
		return ""
	}
	return fmt.Sprintf("sha256:%x", sha256.Sum256(raw))
}

// normalise makes an answer the same on every machine and day.
func (w *world) normalise(body json.RawMessage) string {
	var b bytes.Buffer
	if err := json.Indent(&b, body, "", "  "); err != nil {
		w.t.Fatalf("answer is not JSON: %v\n%s", err, body)
	}
	text := timestamp.ReplaceAllString(b.String(), `"$$TIME"`)
	for _, r := range w.names() {
		text = strings.ReplaceAll(text, r.value, r.name)
	}
	text = took.ReplaceAllString(anyJob.ReplaceAllString(text, "$$JOB"), `"$1": 0`)
	return otherID.ReplaceAllString(text, `"$$OTHER_ID"`) + "\n"
}

func (w *world) expand(text string) string {
	for _, r := range w.names() {
		text = strings.ReplaceAll(text, r.name, r.value)
	}
	return text
}

func (w *world) write(path string, data []byte) {
	w.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(path, data, fs.FileMode(0o644)); err != nil {
		w.t.Fatal(err)
	}
}

// lineDiff shows two texts line by line, the differing ones marked.
func lineDiff(want, got string) string {
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	var out strings.Builder
	for i := range max(len(a), len(b)) {
		x, y := "", ""
		if i < len(a) {
			x = a[i]
		}
		if i < len(b) {
			y = b[i]
		}
		if x == y {
			fmt.Fprintf(&out, "  %s\n", x)
			continue
		}
		fmt.Fprintf(&out, "- %s\n+ %s\n", cmp.Or(x, "(no line)"), cmp.Or(y, "(no line)"))
	}
	return out.String()
}
