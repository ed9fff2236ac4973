package mcpserver

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/async-crud-mcp/async-crud-mcp/internal/tool"
)

// The SDK's own decoder ends the connection on the first message it cannot
// read, takes keys twice and rounds ids. What a client sends is therefore
// decoded here, strictly and without giving up, before the SDK sees it.

// refusal is the answer to a message that is not served.
type refusal struct {
	id      jsonrpc.ID // zero: the message has none that can be read
	code    int64
	message string
	data    json.RawMessage // more about it, or nil
	busy    bool            // it may be served later
	silent  bool            // the message is itself an answer; answering it could go on for ever
}

func refuse(code int64, message string) *refusal { return &refusal{code: code, message: message} }

// encode renders r as a JSON-RPC error response.
func (r *refusal) encode() []byte {
	b := append([]byte(`{"jsonrpc":"2.0","id":`), encodeID(r.id)...)
	b = append(b, `,"error":{"code":`...)
	b = strconv.AppendInt(b, r.code, 10)
	b = append(b, `,"message":`...)
	b = tool.AppendString(b, r.message)
	if r.data != nil {
		b = append(append(b, `,"data":`...), r.data...)
	}
	return append(b, "}}"...)
}

var bom = []byte("\xef\xbb\xbf")

// checkJSON strips what surrounds a message and refuses what is not JSON text.
// An empty result without a refusal means there is no message at all.
func checkJSON(data []byte) ([]byte, *refusal) {
	data = bytes.Trim(bytes.TrimPrefix(data, bom), " \t\r\n")
	var r *refusal
	switch {
	case len(data) == 0:
		return nil, nil
	case !json.Valid(data):
		r = refuse(jsonrpc.CodeParseError, "parse error: this is not one JSON value; send one message per line")
	case !utf8.Valid(data):
		r = refuse(jsonrpc.CodeParseError, "parse error: the text is not valid UTF-8")
	default:
		return data, nil
	}
	r.id = peekID(data)
	r.silent = looksLikeAnswer(data)
	return nil, r
}

// decodeMessage reads one JSON-RPC message from valid JSON. Keys must be spelt
// exactly and occur once; unknown keys are ignored.
func decodeMessage(data []byte) (jsonrpc.Message, *refusal) {
	if data[0] != '{' {
		return nil, refuse(jsonrpc.CodeInvalidRequest, "invalid request: a message is a JSON object")
	}
	var f fields
	bad := f.read(data)
	if bad == "" {
		bad = f.check()
	}
	if bad != "" {
		r := refuse(jsonrpc.CodeInvalidRequest, "invalid request: "+bad)
		r.id, _ = parseID(f.id)
		r.silent = f.method == nil && (f.result != nil || f.failure != nil)
		return nil, r
	}
	id, _ := parseID(f.id)
	if f.method == nil {
		res := &jsonrpc.Response{ID: id, Result: f.result}
		if f.failure != nil {
			var e jsonrpc.Error
			_ = json.Unmarshal(f.failure, &e) // what does not fit stays empty; that it failed is what counts
			res.Error = &e
		}
		return res, nil
	}
	var method string
	_ = json.Unmarshal(f.method, &method) // checked to be a string
	if string(f.params) == "null" {
		f.params = nil
	}
	if bad := ambiguous(f.params); bad != "" {
		r := refuse(jsonrpc.CodeInvalidParams, "invalid params: "+bad)
		r.id = id
		return nil, r
	}
	req := &jsonrpc.Request{ID: id, Method: method, Params: f.params}
	switch method {
	case "notifications/cancelled":
		req.Params = markLong(f.params)
	case "initialize":
		// The SDK answers a bad one with an error that has no code.
		var p mcp.InitializeParams
		err := errors.New("params are missing")
		if f.params != nil {
			err = json.Unmarshal(f.params, &p)
		}
		if err != nil {
			r := refuse(jsonrpc.CodeInvalidParams, "invalid params: initialize: "+err.Error())
			r.id = id
			return nil, r
		}
	}
	return req, nil
}

// fields are the raw values of a message's envelope; nil where absent.
type fields struct{ version, id, method, params, result, failure json.RawMessage }

// read fills f and returns what is wrong with the keys, or "". The id is read
// to the end even then, so that the answer can carry it.
func (f *fields) read(data []byte) (bad string) {
	note := func(s string) {
		if bad == "" {
			bad = s
		}
	}
	eachMember(data, func(key, val []byte) bool {
		var to *json.RawMessage
		switch string(key) {
		case "jsonrpc":
			to = &f.version
		case "id":
			to = &f.id
		case "method":
			to = &f.method
		case "params":
			to = &f.params
		case "result":
			to = &f.result
		case "error":
			to = &f.failure
		default:
			for _, known := range envelope {
				if strings.EqualFold(string(key), known) {
					note("key " + strconv.Quote(string(key)) + " must be spelt " + strconv.Quote(known))
				}
			}
			return true
		}
		if *to != nil {
			note("key " + strconv.Quote(string(key)) + " is given twice")
			return true
		}
		*to = val
		return true
	})
	return bad
}

var envelope = []string{"jsonrpc", "id", "method", "params", "result", "error"}

// check returns what is wrong with the values, or "".
func (f *fields) check() string {
	if string(f.version) != `"2.0"` {
		return `"jsonrpc" must be "2.0"`
	}
	if _, ok := parseID(f.id); f.id != nil && !ok {
		return `"id" must be a string or an integer`
	}
	switch {
	case f.method == nil && f.result == nil && f.failure == nil:
		return `"method" is missing`
	case f.method == nil && f.id == nil:
		return `an answer needs an "id"`
	case f.method == nil:
		if f.result != nil && f.failure != nil {
			return `an answer has "result" or "error", not both`
		}
		return ""
	case f.result != nil || f.failure != nil:
		return `a message has "method" or an answer, not both`
	case f.method[0] != '"' || len(f.method) == 2:
		return `"method" must be a name`
	case f.params != nil && f.params[0] != '{' && string(f.params) != "null":
		return `"params" must be an object`
	}
	return ""
}

// ambiguous returns which keys of params can be taken in two ways, or "". Two
// readers of one message must not see two calls. What a tool is called with is
// judged by the tool.
func ambiguous(params json.RawMessage) string {
	return distinct(params, func(key string, val []byte) string {
		switch key {
		case "_meta":
			return distinct(val, func(_ string, val []byte) string { return distinct(val, nil) })
		case "clientInfo":
			return distinct(val, nil)
		}
		for _, known := range []string{"name", "arguments", "_meta"} {
			if key != known && strings.EqualFold(key, known) {
				return "key " + strconv.Quote(key) + " must be spelt " + strconv.Quote(known)
			}
		}
		return ""
	})
}

// distinct returns what is wrong with the keys of the object in data, where no
// two may be the same but for case, or else what inner says of a member.
func distinct(data []byte, inner func(key string, val []byte) string) (bad string) {
	seen := make(map[string]string)
	eachMember(data, func(raw, val []byte) bool {
		key := string(raw)
		folded := strings.ToLower(strings.ToUpper(key)) // letters with three forms fall together
		other, twice := seen[folded]
		switch {
		case twice && other == key:
			bad = "key " + strconv.Quote(clip(key, 100)) + " is given twice"
		case twice:
			bad = "keys " + strconv.Quote(clip(other, 100)) + " and " + strconv.Quote(clip(key, 100)) + " differ in case alone"
		case inner != nil:
			bad = inner(key, val)
		}
		seen[folded] = key
		return bad == ""
	})
	return bad
}

// markLong gives the id that a cancellation names its inner form. The SDK wants
// nothing else of it.
func markLong(params json.RawMessage) json.RawMessage {
	var id jsonrpc.ID
	eachMember(params, func(key, val []byte) bool {
		if string(key) == "requestId" {
			id, _ = parseID(val)
		}
		return true
	})
	if !isLong(id) {
		return params
	}
	return append(tool.AppendString([]byte(`{"requestId":`), id.Raw().(string)), '}')
}

// parseID reads an id without rounding it.
func parseID(raw json.RawMessage) (jsonrpc.ID, bool) {
	if len(raw) == 0 || string(raw) == "null" {
		return jsonrpc.ID{}, false
	}
	if raw[0] == '"' {
		var s string
		if json.Unmarshal(raw, &s) != nil || strings.HasPrefix(s, longMark) {
			return jsonrpc.ID{}, false
		}
		id, err := jsonrpc.MakeID(s)
		return id, err == nil
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil { // 1.0 and 1e3 are integers too
		f, err := strconv.ParseFloat(string(raw), 64)
		if err != nil || f != math.Trunc(f) || math.Abs(f) > maxExact {
			return jsonrpc.ID{}, false
		}
		n = int64(f)
	}
	return intID(n), true
}

// maxExact is the largest integer up to which every integer is a float64.
const maxExact = 1 << 53

// intID makes an id of n. The SDK makes number ids from float64 alone, so one
// that would be rounded travels as a marked string inside.
func intID(n int64) jsonrpc.ID {
	if n >= -maxExact && n <= maxExact {
		id, _ := jsonrpc.MakeID(float64(n))
		return id
	}
	id, _ := jsonrpc.MakeID(longMark + strconv.FormatInt(n, 10))
	return id
}

// longMark begins the inner form of a number id beyond maxExact; no string id
// of a client may begin with it.
const longMark = "\x00"

// encodeID renders id, or null for the zero id.
func encodeID(id jsonrpc.ID) []byte {
	switch v := id.Raw().(type) {
	case int64:
		return strconv.AppendInt(nil, v, 10)
	case string:
		if n, long := strings.CutPrefix(v, longMark); long {
			return []byte(n)
		}
		return tool.AppendString(nil, v)
	default:
		return []byte("null")
	}
}

// peekID reads the id of a message that may be broken or cut off.
func peekID(data []byte) (id jsonrpc.ID) {
	eachMember(data, func(key, val []byte) bool {
		if string(key) == "id" {
			id, _ = parseID(val)
			return false
		}
		return true
	})
	return id
}

// looksLikeAnswer reports whether a broken message seems to be a response.
func looksLikeAnswer(data []byte) bool {
	method, other := false, false
	eachMember(data, func(key, _ []byte) bool {
		switch string(key) {
		case "method":
			method = true
		case "result", "error":
			other = true
		}
		return true
	})
	return other && !method
}

// isModern reports whether params name a protocol version of the era without
// initialize.
func isModern(params []byte) bool {
	if !bytes.Contains(params, []byte("protocolVersion")) { // spares most messages the walk
		return false
	}
	modern := false
	eachMember(params, func(key, val []byte) bool {
		if string(key) != "_meta" {
			return true
		}
		eachMember(val, func(key, val []byte) bool {
			if string(key) == mcp.MetaKeyProtocolVersion {
				modern = bytes.Compare(bytes.Trim(val, `"`), []byte(modernVersion)) >= 0
			}
			return true
		})
		return true
	})
	return modern
}

// modernVersion is the first protocol version without initialize; versions
// are dates, so they compare as strings.
const modernVersion = "2026-07-28"

// eachMember calls f with each key, unescaped, and raw value of the object in
// data until f returns false. It goes as far as the text makes sense and never
// beyond its end, so it may be used on broken JSON.
func eachMember(data []byte, f func(key, val []byte) bool) {
	i := skipSpace(data, 0)
	if i >= len(data) || data[i] != '{' {
		return
	}
	for i++; ; i++ {
		i = skipSpace(data, i)
		end := skipValue(data, i)
		if end < 0 || data[i] != '"' {
			return
		}
		key := data[i+1 : end-1]
		if bytes.IndexByte(key, '\\') >= 0 {
			var s string
			if json.Unmarshal(data[i:end], &s) != nil {
				return
			}
			key = []byte(s)
		}
		i = skipSpace(data, end)
		if i >= len(data) || data[i] != ':' {
			return
		}
		i = skipSpace(data, i+1)
		end = skipValue(data, i)
		if end < 0 || !f(key, data[i:end]) {
			return
		}
		i = skipSpace(data, end)
		if i >= len(data) || data[i] != ',' {
			return
		}
	}
}

// eachElement calls f with each raw element of the valid JSON array in data.
func eachElement(data []byte, f func(val []byte)) {
	i := skipSpace(data, 1)
	for i < len(data) && data[i] != ']' {
		end := skipValue(data, i)
		if end < 0 {
			return
		}
		f(data[i:end])
		i = skipSpace(data, end)
		if i < len(data) && data[i] == ',' {
			i = skipSpace(data, i+1)
		}
	}
}

func skipSpace(data []byte, i int) int {
	for i < len(data) && (data[i] == ' ' || data[i] == '\t' || data[i] == '\r' || data[i] == '\n') {
		i++
	}
	return i
}

// skipValue returns the index behind the value that begins at i, or -1 when it
// does not end.
func skipValue(data []byte, i int) int {
	depth := 0
	for start := i; i < len(data); i++ {
		switch c := data[i]; {
		case c == '"':
			for i++; i < len(data) && data[i] != '"'; i++ {
				if data[i] == '\\' {
					i++
				}
			}
			if i >= len(data) {
				return -1
			}
			if depth == 0 {
				return i + 1
			}
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			depth--
			if depth == 0 {
				return i + 1
			}
			if depth < 0 {
				return endOf(start, i)
			}
		case depth == 0 && (c == ',' || c == ':' || c <= ' '):
			return endOf(start, i)
		}
	}
	return -1
}

// endOf is the end of a bare value, which must not be empty.
func endOf(start, end int) int {
	if start == end {
		return -1
	}
	return end
}

// isLong reports whether id is a number that the SDK would round.
func isLong(id jsonrpc.ID) bool {
	s, ok := id.Raw().(string)
	return ok && strings.HasPrefix(s, longMark)
}
