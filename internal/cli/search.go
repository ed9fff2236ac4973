package cli

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/async-crud-mcp/async-crud-mcp/internal/app"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fsys"
	"github.com/async-crud-mcp/async-crud-mcp/internal/project"
	"github.com/async-crud-mcp/async-crud-mcp/internal/search"
	"github.com/async-crud-mcp/async-crud-mcp/internal/search/linematch"
)

func searchCommand(t *terminal, f *flags) *cobra.Command {
	var r search.Request
	var files, count, noIgnore bool
	var colour string
	cmd := &cobra.Command{
		Use: "search PATTERN [PATH]", Short: "Search file contents as agents do", GroupID: "look", Args: cobra.RangeArgs(1, 2),
		Long: "Print the lines that match a regular expression, below PATH or the current directory, in the files that\n" +
			"async_search would look at: hidden ones too; not those that .gitignore names, binary or very large ones, nor what\n" +
			"access rules deny. Content rules hold as well. The exit code is 1 when nothing matches and 2 when something is\n" +
			"wrong.",
		Example: "  " + app.Name + " search 'func New\\w*\\(' -g '*.go'\n" +
			"  " + app.Name + " search -i -C 2 todo src",
		RunE: func(cmd *cobra.Command, args []string) error {
			r.Pattern, r.Mode, r.Recursive = args[0], search.Content, true
			switch {
			case files:
				r.Mode = search.Files
			case count:
				r.Mode = search.Count
			}
			if r.MaxResults <= 0 {
				r.MaxResults = 1 << 30
			}
			named := "."
			if len(args) > 1 {
				named = args[1]
			}
			var err error
			if r.Path, err = existing(named); err != nil {
				return &failure{code: exitUsage, err: err}
			}
			p, err := newPrinter(t, r, colour, named)
			if err != nil {
				return err
			}
			a, err := f.load(cmd, t, "call")
			if err != nil {
				return err
			}
			defer a.Close()
			found, err := a.SearchFor(cmd.Context(), projectOf(a.Root(), r.Path), noIgnore, r)
			if err != nil {
				e := explain(cmd, err)
				e.code = exitUsage
				return e
			}
			if err := p.print(found); err != nil {
				return err
			}
			if len(found.Matches) == 0 {
				return &failure{code: exitFailed, err: errors.New("nothing matches"), silent: true}
			}
			return nil
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.root, "root", "", "the project directory (default: the nearest above PATH with .git or .async-crud-mcp)")
	f.registerSettings(cmd)
	fl.BoolVarP(&r.CaseInsensitive, "ignore-case", "i", false, "letters match in either case")
	fl.StringVarP(&r.Glob, "glob", "g", "", "search only files that this glob matches, such as *.py or src/**/*.go")
	fl.IntVarP(&r.ContextLines, "context", "C", 0, "print this many lines around each match")
	fl.IntVarP(&r.MaxResults, "max-results", "m", 0, "print this many results at most (default: all)")
	fl.BoolVarP(&files, "files-with-matches", "l", false, "print only the names of files")
	fl.BoolVarP(&count, "count", "c", false, "print only how many lines match in each file")
	fl.BoolVar(&noIgnore, "no-ignore", false, "search files that .gitignore names, too")
	fl.StringVar(&colour, "color", "auto", "auto, always or never")
	cmd.MarkFlagsMutuallyExclusive("files-with-matches", "count")
	_ = cmd.MarkFlagDirname("root")
	_ = cmd.RegisterFlagCompletionFunc("color", cobra.FixedCompletions([]string{"auto", "always", "never"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// existing returns the absolute path of a file or directory, links resolved.
func existing(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err == nil {
		abs, err = filepath.EvalSymlinks(abs)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%s does not exist", path)
	}
	return abs, err
}

// projectOf returns the directory whose ignore files and settings hold for path:
// the project's, or path's own.
func projectOf(root, path string) string {
	if root != "" && fsys.Within(root, path) {
		return root
	}
	dir := path
	if info, err := os.Stat(path); err == nil && !info.IsDir() {
		dir = filepath.Dir(path)
	}
	for at := dir; ; at = filepath.Dir(at) {
		if project.LooksLikeProject(at) {
			return at
		}
		if at == filepath.Dir(at) {
			return dir
		}
	}
}

// printer shows what was found, on a terminal as a person reads it and elsewhere
// as programs do.
type printer struct {
	out     *bufio.Writer
	request search.Request
	spans   *linematch.Scanner
	named   string // what the person called the path; "": the current directory
	heading bool   // files have a line of their own
	colours bool
}

// The colours that people know from such tools.
const (
	fileColour  = "35"
	lineColour  = "32"
	matchColour = "1;31"
)

func newPrinter(t *terminal, r search.Request, colour, named string) (*printer, error) {
	p := &printer{out: bufio.NewWriter(t.out), request: r, heading: isTerminal(t.out)}
	switch colour {
	case "always":
		p.colours = true
	case "auto":
		p.colours = colours(t.out)
	case "never":
	default:
		return nil, &failure{code: exitUsage, err: fmt.Errorf("--color is %q", colour), next: "say auto, always or never"}
	}
	if m, err := linematch.Compile(r.Pattern, linematch.Options{FoldCase: r.CaseInsensitive}); err == nil {
		p.spans = m.Scanner() // a pattern that is wrong is refused by the search
	}
	if named != "." {
		p.named = strings.TrimSuffix(filepath.ToSlash(filepath.Clean(named)), "/")
	}
	return p, nil
}

func (p *printer) print(r *search.Result) error {
	for rest := r.Matches; len(rest) > 0; {
		file := rest[0].File
		n := slices.IndexFunc(rest, func(m search.Match) bool { return m.File != file })
		if n < 0 {
			n = len(rest)
		}
		p.file(p.name(r.Root, file), rest[:n])
		if rest = rest[n:]; p.heading && p.request.Mode == search.Content && len(rest) > 0 {
			p.write("\n")
		}
	}
	return p.out.Flush()
}

// name is a file as the person would name it: below the path that was given.
func (p *printer) name(root, file string) string {
	rel, err := filepath.Rel(p.request.Path, filepath.Join(root, filepath.FromSlash(file)))
	rel = filepath.ToSlash(rel)
	switch {
	case err != nil:
		return file
	case rel == ".": // a file was asked for
		return p.named
	case p.named == "":
		return rel
	default:
		return p.named + "/" + rel
	}
}

func (p *printer) file(name string, matches []search.Match) {
	switch p.request.Mode {
	case search.Files:
		p.write(p.paint(fileColour, name) + "\n")
		return
	case search.Count:
		p.write(fmt.Sprintf("%s:%d\n", p.paint(fileColour, name), matches[0].Count))
		return
	case search.Content:
	}
	if p.heading {
		p.write(p.paint(fileColour, name) + "\n")
	}
	last := 0 // the last line that was printed
	for i, m := range matches {
		first := m.Line - len(m.Before)
		if last > 0 && p.request.ContextLines > 0 && first > last+1 {
			p.write("--\n")
		}
		for j, line := range m.Before {
			if first+j > last {
				p.line(name, first+j, "-", line)
			}
		}
		p.line(name, m.Line, ":", p.marked(m.Text))
		last = m.Line
		for j, line := range m.After {
			if i+1 < len(matches) && m.Line+1+j >= matches[i+1].Line {
				break // it is printed as a match
			}
			last = m.Line + 1 + j
			p.line(name, last, "-", line)
		}
	}
}

func (p *printer) line(name string, number int, mark, text string) {
	if !p.heading {
		p.write(p.paint(fileColour, name) + mark)
	}
	p.write(p.paint(lineColour, fmt.Sprint(number)) + mark + text + "\n")
}

// marked paints what matches in a line.
func (p *printer) marked(line string) string {
	if !p.colours || p.spans == nil {
		return line
	}
	spans, err := p.spans.Spans([]byte(line), -1)
	if err != nil {
		return line
	}
	var b strings.Builder
	at := 0
	for _, s := range spans {
		b.WriteString(line[at:s.Start] + p.paint(matchColour, line[s.Start:s.End]))
		at = s.End
	}
	return b.String() + line[at:]
}

func (p *printer) paint(colour, text string) string {
	if !p.colours {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}

// write keeps an error for Flush to return.
func (p *printer) write(text string) { _, _ = p.out.WriteString(text) }
