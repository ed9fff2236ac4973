package policy

import (
	"errors"
	"strings"
	"sync"

	"github.com/async-crud-mcp/async-crud-mcp/internal/pattern"
	"github.com/async-crud-mcp/async-crud-mcp/internal/shellast"
)

// nuRules are the builtins of Nushell that reach files, with the rule that says
// what to use instead.
var nuRules = sync.OnceValue(func() map[string]string {
	return map[string]string{
		"open": "read-file", "save": "write-file", "ls": "list-files", "glob": "list-files", "du": "list-files", "rm": "delete-file", "cp": "copy-file", "ucp": "copy-file",
		"mv": "move-file", "umv": "move-file", "mkdir": "make-directory", "umkdir": "make-directory", "touch": "write-file", "utouch": "write-file", "mktemp": "write-file",
	}
})

// nuOwn are builtins of Nushell that share a name with a program the rules know,
// and work on the pipeline alone.
const nuOwn = `sort split uniq join tee rename format first last find seq date print columns hash history echo paste fold alias view source use watch headers parse`

// nu judges a text of Nushell.
func (j *judge) nu(text string) *Decision {
	s, err := shellast.ParseNu(text)
	if err != nil {
		return j.foreignError(err, text)
	}
	for _, c := range s.Calls {
		if d := j.foreignRedirs(c); d != nil {
			return d
		}
		if len(c.Words) == 0 {
			continue
		}
		first := c.Words[0].Text
		name, external := strings.CutPrefix(first, "^")
		if name == "run-external" && len(c.Words) > 1 {
			c.Words, external = c.Words[1:], true
			name = c.Words[0].Text
		}
		c.Words[0].Text = name
		if !external {
			if rule, ok := nuRules()[name]; ok {
				if d := j.see(c.String(), name, Span(c.Span)); d != nil {
					return d
				}
				if d := j.deny(rule, name, Span(c.Span)); d != nil {
					return d
				}
				continue
			}
			// A value, or a builtin that only works on what is piped into it.
			if strings.HasPrefix(first, string(shellast.Hole)) || has(nuOwn, name) {
				if d := j.see(c.String(), name, Span(c.Span)); d != nil {
					return d
				}
				continue
			}
		}
		if d := j.foreignCall(c); d != nil {
			return d
		}
	}
	return nil
}

// windows are the commands and aliases of PowerShell and cmd that reach files.
var windows = sync.OnceValue(func() map[string]string {
	return map[string]string{
		"get-content": "read-file", "gc": "read-file", "cat": "read-file", "type": "read-file", "import-csv": "read-file", "ipcsv": "read-file", "import-clixml": "read-file", "format-hex": "read-file", "more": "read-file",
		"set-content": "write-file", "sc": "write-file", "add-content": "write-file", "ac": "write-file", "clear-content": "write-file", "clc": "write-file", "out-file": "write-file",
		"export-csv": "write-file", "epcsv": "write-file", "export-clixml": "write-file", "new-item": "write-file", "ni": "write-file", "new-temporaryfile": "write-file", "tee-object": "tee-file",
		"remove-item": "delete-file", "ri": "delete-file", "rm": "delete-file", "del": "delete-file", "erase": "delete-file", "rd": "delete-file", "rmdir": "delete-file",
		"copy-item": "copy-file", "cpi": "copy-file", "cp": "copy-file", "copy": "copy-file", "xcopy": "copy-file", "robocopy": "copy-file",
		"move-item": "move-file", "mi": "move-file", "mv": "move-file", "move": "move-file", "rename-item": "move-file", "rni": "move-file", "ren": "move-file",
		"get-childitem": "list-files", "gci": "list-files", "ls": "list-files", "dir": "list-files", "tree": "list-files", "mkdir": "make-directory", "md": "make-directory",
		"findstr": "search-files", "invoke-expression": "computed-script", "iex": "computed-script", "set-item": "write-file", "si": "write-file", "expand-archive": "write-file",
	}
})

// psOwn are aliases of PowerShell that share a name with a program the rules know.
const psOwn = `sort diff tee echo find history hash select where fc set`

var psHidden = pattern.Lazily(`(?i)\[\s*(?:system\.)?(?:io|diagnostics|reflection|management\.automation)\.|\[\s*(?:scriptblock|activator|type|file|directory)\s*\]\s*::|\badd-type\b|::\s*(?:read|write|append)(?:all)?(?:text|lines|bytes)|\.\s*invoke\s*\(|\binvoke-command\b|\bstart-process\b|\bnew-object\s+[\w.-]*(?:io\.|webclient|comobject)|-outfile\b|\bdownloadfile\b`)

// powershell judges a text of PowerShell.
func (j *judge) powershell(text string, within *Span) *Decision {
	place := func(s shellast.Span) Span {
		if within != nil {
			return *within
		}
		return Span(s)
	}
	if m := psHidden().FindStringIndex(text); m != nil {
		if d := j.deny("one-liner", text[m[0]:m[1]], place(shellast.Span{Start: m[0], End: m[1]})); d != nil {
			return d
		}
	}
	s, err := shellast.ParsePowerShell(text)
	if err != nil {
		return j.foreignError(err, text)
	}
	for _, c := range s.Calls {
		if within != nil {
			c.Span = shellast.Span(*within)
		}
		if d := j.foreignRedirs(c); d != nil {
			return d
		}
		for len(c.Words) > 0 && (c.Words[0].Text == "&" || c.Words[0].Text == ".") {
			c.Words = c.Words[1:]
			if len(c.Words) > 0 && c.Words[0].Computed() {
				if d := j.deny("computed-name", c.Words[0].Text, Span(c.Span)); d != nil {
					return d
				}
			}
		}
		if len(c.Words) == 0 || c.Words[0].Computed() {
			continue // a value
		}
		c.Words[0].Text = strings.ReplaceAll(c.Words[0].Text, `\`, "/")
		base, _ := c.Words[0].Base()
		name := strings.TrimSuffix(strings.ToLower(base), ".exe")
		rule, ok := windows()[name]
		if name == "select-string" || name == "sls" {
			rule, ok = "search-files", c.Stdin.Kind != shellast.Pipe || len(c.Words) > 3
		}
		switch {
		case ok:
			if d := j.see(c.String(), name, Span(c.Span)); d != nil {
				return d
			}
			if d := j.deny(rule, base, Span(c.Span)); d != nil {
				return d
			}
		case has(psOwn, name) && !strings.HasSuffix(base, ".exe"):
			if d := j.see(c.String(), name, Span(c.Span)); d != nil {
				return d
			}
		default:
			if d := j.foreignCall(c); d != nil {
				return d
			}
		}
	}
	return nil
}

// foreignCall judges a program that another shell calls, as bash would call it.
func (j *judge) foreignCall(c *shellast.Call) *Decision {
	if d := j.seeCall(c, Span(c.Span)); d != nil {
		return d
	}
	return j.simple(&command{words: c.Words, call: c, stdin: c.Stdin, at: Span(c.Span)})
}

func (j *judge) foreignRedirs(c *shellast.Call) *Decision {
	for _, r := range c.Redirs {
		target := r.Target.Text
		if target == "$null" || stream(r.Target) || strings.HasPrefix(target, "&") {
			continue
		}
		if d := j.deny("redirect-write", r.Op+" "+target, Span(r.Span)); d != nil {
			return d
		}
	}
	return nil
}

func (j *judge) foreignError(err error, text string) *Decision {
	if e, ok := errors.AsType[*shellast.LimitError](err); ok {
		return j.unjudged("too-complex", e.What, Span{0, len(text)})
	}
	at := Span{0, len(text)}
	if e, ok := errors.AsType[*shellast.SyntaxError](err); ok {
		at.Start = min(e.Offset, len(text))
	}
	return j.unjudged("unparsable", err.Error(), at)
}

// unknownShell finds commands in a text without knowing its grammar: a program of
// the rules at the beginning of something.
var unknownShell = pattern.Lazily(`(?:^|[|;&\n({]|\$\()\s*\^?(?:[\w./~-]*/)?([\w.+-]+)(?:\s|$)`)

// unknown judges a text whose grammar nobody here knows, by regular expressions.
func (j *judge) unknown(text string) *Decision {
	for _, m := range unknownShell().FindAllStringSubmatchIndex(text, -1) {
		name := canonical(text[m[2]:m[3]])
		r, ok := byCommand()[name]
		if !ok && (name == "sed" || name == "awk") {
			r, ok = byName()["read-file"], true
		}
		piped := strings.HasSuffix(strings.TrimRight(text[:m[2]], " \t^"), "|")
		if ok && (r.when == always || !piped) {
			if d := j.deny(r.name, name, Span{m[2], m[3]}); d != nil {
				return d
			}
		}
	}
	if m := unknownRedirect().FindStringSubmatchIndex(text); m != nil && !stream(shellast.Word{Text: text[m[2]:m[3]]}) {
		return j.deny("redirect-write", text[m[0]:m[1]], Span{m[0], m[1]})
	}
	return nil
}

var unknownRedirect = pattern.Lazily(`>{1,2}\s*([\w./~$-][^\s|;&)]*)`)
