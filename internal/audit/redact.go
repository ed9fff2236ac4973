package audit

import (
	"regexp"
	"strings"
	"sync"
	"unicode"
)

// mark stands in a record where a secret stood.
const mark = "[redacted]"

// Redact returns text, usually a command, with what looks like a secret replaced:
// tokens of known shapes, credentials in URLs and headers, and the values of
// names that speak of secrets. It works in linear time. Redacting twice is
// redacting once.
func Redact(text string) string {
	if text == "" {
		return ""
	}
	for _, s := range shapes() {
		if s.holds(text) {
			text = s.pattern.ReplaceAllString(text, s.with)
		}
	}
	for _, a := range arguments() {
		if strings.Contains(text, a.program) {
			text = redactGroup(a.pattern, text, notNumeric)
		}
	}
	lower := strings.ToLower(text)
	for _, stem := range stems {
		if strings.Contains(lower, stem) {
			return redactNamed(text)
		}
	}
	return text
}

// stems are in every name that speaks of a secret.
var stems = []string{"pass", "secret", "token", "key", "credential", "bearer", "auth", "cookie", "pat", "jwt", "dsn", "pwd"}

// shape is a secret that is known by its form.
type shape struct {
	literals []string // one of them is in every text that fits
	pattern  *regexp.Regexp
	with     string
}

func (s shape) holds(text string) bool {
	for _, l := range s.literals {
		if strings.Contains(text, l) {
			return true
		}
	}
	return false
}

var shapes = sync.OnceValue(func() []shape {
	return []shape{
		// A private key goes up to its end, or that of the text.
		{[]string{"PRIVATE KEY"}, regexp.MustCompile(`-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----(?s:.*?)(?:-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|$)`), mark},
		{[]string{"AGE-SECRET-KEY-"}, regexp.MustCompile(`AGE-SECRET-KEY-1[A-Z0-9]+`), mark},
		// Code hosts.
		{[]string{"gh"}, regexp.MustCompile(`\b(?:gh[opusr]_[A-Za-z0-9]{16,}|github_pat_[A-Za-z0-9_]{16,})`), mark},
		{[]string{"gl"}, regexp.MustCompile(`\bgl(?:pat|dt|rt|ft|cbt|ptt|soat|imt|agent)-[A-Za-z0-9_.-]{16,}`), mark},
		{[]string{"ATATT", "ATCTT", "ATBB"}, regexp.MustCompile(`\bAT(?:ATT|CTT|BB)[A-Za-z0-9_=-]{16,}`), mark},
		// Clouds.
		{[]string{"AKIA", "ASIA", "ABIA", "ACCA"}, regexp.MustCompile(`\bA(?:KI|SI|BI|CC)A[A-Z0-9]{16}\b`), mark},
		{[]string{"AIza", "ya29.", "GOCSPX-"}, regexp.MustCompile(`\b(?:AIza[A-Za-z0-9_-]{30,}|ya29\.[A-Za-z0-9_-]{16,}|GOCSPX-[A-Za-z0-9_-]{16,})`), mark},
		{[]string{"_v1_"}, regexp.MustCompile(`\bdo[opr]_v1_[a-f0-9]{32,}`), mark},
		{[]string{"hvs.", "hvb.", "hvr."}, regexp.MustCompile(`\bhv[sbr]\.[A-Za-z0-9_-]{16,}`), mark},
		{[]string{"dapi"}, regexp.MustCompile(`\bdapi[a-f0-9]{32}\b`), mark},
		// Services.
		{[]string{"xox", "xapp-"}, regexp.MustCompile(`\b(?:xox[a-z]-|xapp-)[A-Za-z0-9-]{8,}`), mark},
		{[]string{"hooks.slack.com"}, regexp.MustCompile(`(hooks\.slack\.com/(?:services|workflows)/)[A-Za-z0-9/_-]+`), "${1}" + mark},
		{[]string{"sk-", "sk_", "rk_", "whsec_"}, regexp.MustCompile(`\b(?:sk-[A-Za-z0-9_-]{16,}|[sr]k_(?:live|test)_[A-Za-z0-9]{8,}|whsec_[A-Za-z0-9+/=]{16,})`), mark},
		{[]string{"npm_", "pypi-", "hf_", "dckr_pat_", "lin_api_", "shp"}, regexp.MustCompile(`\b(?:npm_[A-Za-z0-9]{20,}|pypi-[A-Za-z0-9_-]{16,}|hf_[A-Za-z0-9]{16,}|dckr_pat_[A-Za-z0-9_-]{16,}|lin_api_[A-Za-z0-9]{16,}|shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32})`), mark},
		{[]string{"SG."}, regexp.MustCompile(`\bSG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}`), mark},
		{[]string{"eyJ"}, regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*`), mark},
		{[]string{":AA"}, regexp.MustCompile(`\b[0-9]{8,10}:AA[A-Za-z0-9_-]{33}\b`), mark},
		// Credentials in a URL: a password, or a name so long that it is a token.
		{[]string{"://"}, regexp.MustCompile(`(://[^\s/@:'"]*:)[^\s/'"]+@`), "${1}" + mark + "@"},
		{[]string{"://"}, regexp.MustCompile(`(://)[^\s/@:'"\[\]]{20,}@`), "${1}" + mark + "@"},
	}
})

// argument is a secret that is known by the program it is given to.
type argument struct {
	program string // is in every text that fits
	pattern *regexp.Regexp
}

// line is what may stand between a program and its argument.
const line = `[^\n|;&]*?[ \t]`

// word is an argument of a command, quoted or not.
const word = `('[^']*'|"(?:\\.|[^"\\])*"|(?:\\.|[^\s'"\\;|&<>()])+)`

// The secret is group 1 of each pattern.
var arguments = sync.OnceValue(func() []argument {
	return []argument{
		{"curl", regexp.MustCompile(`\bcurl\b` + line + `(?:-u ?|--user[= ]|--proxy-user[= ])['"]?[^\s:'"]+:([^\s'"]+)`)},
		{"mysql", regexp.MustCompile(`\bmysql\w*\b` + line + `-p` + word)},
		{"mariadb", regexp.MustCompile(`\bmariadb[\w-]*\b` + line + `-p` + word)},
		{"sshpass", regexp.MustCompile(`\bsshpass\b` + line + `-p ?` + word)},
		{"login", regexp.MustCompile(`\blogin\b` + line + `-p[ =]?` + word)},
		{"redis-cli", regexp.MustCompile(`\bredis-cli\b` + line + `-a[ =]?` + word)},
		{"ldap", regexp.MustCompile(`\bldap\w+\b` + line + `-w ?` + word)},
		{"smbclient", regexp.MustCompile(`\bsmbclient\b` + line + `-U ?['"]?[^\s%'"]+%([^\s'"]+)`)},
		{"zip", regexp.MustCompile(`\b(?:un)?zip\b` + line + `-P ?` + word)},
		{"7z", regexp.MustCompile(`\b7z\w?\b` + line + `-p` + word)},
		{"htpasswd", regexp.MustCompile(`\bhtpasswd\b` + line + `-[A-Za-z]*b[A-Za-z]*[ \t]+(?:[^\s]+[ \t]+){1,2}` + word)},
		{"pass:", regexp.MustCompile(`\bpass:([^\s'"]+)`)},
		// A secret that is printed into a command that reads it.
		{"-stdin", regexp.MustCompile(`\b(?:echo|printf)\b(?:[ \t]+-[neE]+)*[ \t]+([^|\n]+?)[ \t]*\|[^|\n]*--(?:password|token)-stdin\b`)},
		{"--with-token", regexp.MustCompile(`\b(?:echo|printf)\b(?:[ \t]+-[neE]+)*[ \t]+([^|\n]+?)[ \t]*\|[^|\n]*--with-token\b`)},
		{"sudo", regexp.MustCompile(`\b(?:echo|printf)\b(?:[ \t]+-[neE]+)*[ \t]+([^|\n]+?)[ \t]*\|[ \t]*sudo\b[^|\n]*?[ \t]-[A-Za-z]*S`)},
	}
})

// redactGroup replaces group 1 of every match that counts.
func redactGroup(p *regexp.Regexp, text string, counts func(string) bool) string {
	var b strings.Builder
	from := 0
	for _, m := range p.FindAllStringSubmatchIndex(text, -1) {
		value := text[m[2]:m[3]]
		if !counts(value) || isReference(value) || isMark(value) {
			continue
		}
		b.WriteString(text[from:m[2]])
		b.WriteString(keepQuotes(value))
		from = m[3]
	}
	if from == 0 {
		return text
	}
	b.WriteString(text[from:])
	return b.String()
}

// notNumeric leaves ids and ports alone.
func notNumeric(s string) bool { return strings.Trim(s, "0123456789") != "" }

// named finds a name with a value behind it: NAME=value, --name value,
// "name": "value", Header: value. Group 1 is the name, group 2 what separates
// them.
var named = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`([A-Za-z][A-Za-z0-9_.-]*)(\\?["']?[ \t]*(?:=>|:=|=|:)[ \t]*|[ \t]+)`)
})

// redactNamed replaces the values of names that speak of secrets.
func redactNamed(text string) string {
	var b strings.Builder
	var q quotes
	written, from := 0, 0
	for {
		m := named().FindStringSubmatchIndex(text[from:])
		if m == nil {
			break
		}
		start, end := from+m[2], from+m[1]
		name, separator := text[start:from+m[3]], text[from+m[4]:end]
		from = from + m[3] // the value may be a name as well
		if !secretName(name) {
			continue
		}
		from = end
		stop := end + valueLength(text[end:], q.at(text, start), name, separator)
		value := text[end:stop]
		if value == "" || isMark(value) || !isSecretValue(text[:start], name, separator, value) {
			continue
		}
		b.WriteString(text[written:end])
		b.WriteString(keepQuotes(value))
		written, from = stop, stop
	}
	if written == 0 {
		return text
	}
	b.WriteString(text[written:])
	return b.String()
}

// isSecretValue reports whether value, behind a name that speaks of secrets, is
// to be hidden: a reference to a variable, a word of prose and the next flag are
// not.
func isSecretValue(before, name, separator, value string) bool {
	bare := strings.Trim(value, `'"\`)
	switch strings.ToLower(bare) {
	case "", "true", "false", "null", "none", "nil", "yes", "no":
		return false
	}
	if isReference(value) {
		return false
	}
	flag := strings.HasSuffix(before, "-")
	switch trimmed := strings.TrimSpace(separator); {
	case strings.Contains(trimmed, "="):
		return true
	case trimmed == "": // --password value, bearer value
		if flag {
			return !strings.HasPrefix(bare, "-")
		}
		return strings.EqualFold(name, "bearer") && looksRandom(bare)
	case strings.ContainsAny(trimmed, `"'`) || isHeader(name): // "password": "value"
		return true
	default: // password: value, which may be prose
		return looksRandom(bare)
	}
}

// isHeader tells headers whose value is hidden whatever it looks like.
func isHeader(name string) bool {
	switch strings.ToLower(name) {
	case "authorization", "proxy-authorization", "cookie", "set-cookie", "private-token", "job-token":
		return true
	}
	return len(name) > 2 && strings.EqualFold(name[:2], "x-")
}

// valueLength is how long the value is that rest begins with. Its name stands in
// an argument that outer quotes, if not 0.
func valueLength(rest string, outer byte, name, separator string) int {
	if isHeader(name) && strings.Contains(separator, ":") { // up to the end of its argument
		if i := strings.IndexAny(rest, "'\"\r\n"); i >= 0 {
			return i
		}
		return len(rest)
	}
	n := 0
	if escaped := `\"`; strings.HasPrefix(rest, escaped) { // JSON inside double quotes
		if i := strings.Index(rest[2:], escaped); i >= 0 {
			return i + 4
		}
	}
	for n < len(rest) {
		c := rest[n]
		switch {
		case c == '\\' && n+1 < len(rest) && outer != '\'':
			if outer == '"' && rest[n+1] == '"' {
				return n
			}
			n += 2
		case c == outer:
			return n // of the argument that holds the name
		case c == '\'' || c == '"':
			i := strings.IndexByte(rest[n+1:], c)
			if i < 0 {
				return len(rest)
			}
			n += i + 2
		case unicode.IsSpace(rune(c)) || strings.IndexByte(";|&<>(),}", c) >= 0:
			if n == 0 || !strings.HasPrefix(rest, "$(") {
				return n
			}
			n++
		default:
			n++
		}
	}
	return n
}

// quotes knows which quote is open at a place, for places that only go forward.
type quotes struct {
	read int
	open byte // or 0
}

func (q *quotes) at(text string, place int) byte {
	for ; q.read < place; q.read++ {
		switch c := text[q.read]; {
		case c == '\\' && q.open != '\'':
			q.read++
		case q.open == 0 && (c == '\'' || c == '"'):
			q.open = c
		case c == q.open:
			q.open = 0
		}
	}
	return q.open
}

// keepQuotes is the mark, in the quotes of what it replaces.
func keepQuotes(value string) string {
	for _, q := range []string{`\"`, `"`, `'`} {
		if len(value) >= 2*len(q) && strings.HasPrefix(value, q) && strings.HasSuffix(value, q) {
			return q + mark + q
		}
	}
	return mark
}

// isMark reports whether value begins with something that was hidden already.
func isMark(value string) bool { return strings.HasPrefix(strings.TrimLeft(value, `'"\`), mark) }

var reference = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^["']?(?:\$\w+|\$\{\w+\}|\$\(.*|` + "`" + `.*|%\w+%)["']?$`)
})

// isReference reports whether value says only where the secret is.
func isReference(value string) bool { return reference().MatchString(value) }

// looksRandom tells a token from a word: it is long and has digits, or is very
// long.
func looksRandom(s string) bool {
	if len(s) < 8 || strings.ContainsFunc(s, unicode.IsSpace) {
		return false
	}
	return len(s) >= 32 || strings.ContainsAny(s, "0123456789") && strings.ContainsFunc(s, unicode.IsLetter)
}

// secretWords make a name speak of a secret, wherever in it they stand.
var secretWords = sync.OnceValue(func() map[string]bool {
	return words("password passwd passphrase passcode secret secrets token credential credentials apikey " +
		"bearer authorization cookie pat jwt dsn pgpassword mysqlpwd passwort")
})

// keyWords make the name of a key speak of a secret one.
var keyWords = sync.OnceValue(func() map[string]bool {
	return words("api access secret private encryption signing account shared master auth client service storage ssh deploy license")
})

// lastWords say that the value is about a secret and not one.
var lastWords = sync.OnceValue(func() map[string]bool {
	return words("file path dir url uri name id type ttl expiry expires count limit length max min policy stdin env var " +
		"store provider prefix header field kind mode endpoint size version test tests hash")
})

func words(list string) map[string]bool {
	set := make(map[string]bool)
	for w := range strings.FieldsSeq(list) {
		set[w] = true
	}
	return set
}

// secretName reports whether a name speaks of a secret: DB_PASSWORD, apiKey,
// X-Auth-Token, but not token_file or author.
func secretName(name string) bool {
	parts := nameWords(name)
	last := len(parts) - 1
	if last < 0 || last > 0 && lastWords()[parts[last]] {
		return false
	}
	for i, w := range parts {
		switch {
		case secretWords()[w]:
			return true
		case w == "key" && i > 0 && keyWords()[parts[i-1]], w == "auth" && i == last, w == "pass" && i == last:
			return true
		}
	}
	return name == "Pwd" || name == "pwd"
}

// nameWords splits a name at _, -, . and where small letters end, in lower case.
func nameWords(name string) []string {
	var parts []string
	from := 0
	cut := func(i int) {
		if i > from {
			parts = append(parts, strings.ToLower(name[from:i]))
		}
	}
	for i := range len(name) {
		c := name[i]
		switch {
		case c == '_' || c == '-' || c == '.':
			cut(i)
			from = i + 1
		case i > from && c >= 'A' && c <= 'Z' && name[i-1] >= 'a' && name[i-1] <= 'z':
			cut(i)
			from = i
		}
	}
	cut(len(name))
	return parts
}
