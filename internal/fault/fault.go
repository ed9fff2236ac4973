// Package fault is the closed vocabulary of error codes that clients see, and
// the one error type that carries them.
//
// Low packages return plain Go errors; an engine turns a cause into an [Error]
// once, where it knows the meaning; the edge only prints it. Contention, denial
// and "still running" are outcomes, not faults. Values are immutable after
// construction and safe to share.
package fault

import (
	"errors"
	"fmt"
)

// Code is a stable, upper-case error code. Every code has one row in [Table].
type Code string

// Error is a failure with a code a client can act on.
type Error struct {
	Code    Code
	Op      string         // what was being done, for logs: "update", "activate"
	Path    string         // the path as the client knows it, or ""
	Message string         // what a client reads; when empty it is made from Err or the table
	Details map[string]any // extra facts for the client; JSON-encodable
	Err     error          // the cause, kept for errors.Is; shown only when Message is empty
}

// New returns an Error whose message is the formatted text. A %w verb keeps the
// cause.
func New(code Code, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Code: code, Message: err.Error(), Err: errors.Unwrap(err)}
}

// At returns e with its path set.
func (e *Error) At(path string) *Error {
	e.Path = path
	return e
}

// With returns e with one more detail.
func (e *Error) With(key string, value any) *Error {
	if e.Details == nil {
		e.Details = make(map[string]any)
	}
	e.Details[key] = value
	return e
}

func (e *Error) Error() string {
	s := string(e.Code) + ": " + e.Text()
	if e.Op != "" {
		s = e.Op + ": " + s
	}
	return s
}

// Text is the message for the client: the explicit one, else the cause, else
// the code's meaning.
func (e *Error) Text() string {
	switch {
	case e.Message != "":
		return e.Message
	case e.Err != nil:
		return e.Err.Error()
	default:
		return Describe(e.Code).Meaning
	}
}

func (e *Error) Unwrap() error { return e.Err }

// From returns the Error inside err. Anything else becomes a SERVER_ERROR whose
// text does not reveal the cause; the cause stays reachable for logs.
func From(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return &Error{Code: ServerError, Message: "unexpected internal error; the server log has the cause", Err: err}
}

// CodeOf returns the code inside err, SERVER_ERROR for any other error, and ""
// for nil.
func CodeOf(err error) Code {
	if err == nil {
		return ""
	}
	return From(err).Code
}
