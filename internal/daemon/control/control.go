// Package control is how processes of the user talk to their daemon: what is said
// on its private socket before anything else, and the few questions that people
// and other processes have.
//
// A connection begins with one line of JSON each way, a Hello and an Answer. A
// session then speaks MCP, one message a line; a listener stays open until either
// side closes it; every other connection ends there.
//
//	bridge, serve, CLI ── Hello ──▶ daemon
//	                   ◀─ Answer ──
//	                   ◀─ MCP … ──▶      (sessions)
//
// Client is safe for concurrent use and keeps no connection. What the daemon does
// is left to the daemon.
package control

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/async-crud-mcp/async-crud-mcp/internal/health"
)

// Protocol is the version of what is said here. A daemon and a client with
// different ones do not understand each other, but for Status and Stop.
const Protocol = 1

// The kinds of connections.
const (
	KindSession = "session"
	KindListen  = "listen"
	KindStatus  = "status"
	KindStop    = "stop"
)

// Hello is what a client says first.
type Hello struct {
	Kind     string `json:"kind"`
	Protocol int    `json:"protocol"`
	Build    string `json:"build"`
	PID      int    `json:"pid"`
	Start    *Start `json:"start,omitempty"`   // of a session or a listener
	IfIdle   bool   `json:"if_idle,omitempty"` // stop only when nobody else would notice
	Keep     bool   `json:"keep,omitempty"`    // listen until the daemon ends
}

// Start is what the client process was started with; it holds for its session
// alone.
type Start struct {
	Root         string         `json:"root,omitempty"`
	Dir          string         `json:"dir,omitempty"`
	TrustProject bool           `json:"trust_project,omitempty"`
	Config       string         `json:"config,omitempty"`
	Set          []string       `json:"set,omitempty"`
	Flags        map[string]any `json:"flags,omitempty"`
	Environ      []string       `json:"environ,omitempty"`
}

// Answer is what the daemon says first.
type Answer struct {
	OK       bool   `json:"ok"`
	Protocol int    `json:"protocol"`
	Build    string `json:"build"`
	PID      int    `json:"pid"`

	// Of a refusal.
	Code    string `json:"code,omitempty"`
	Message string `json:"message,omitempty"`
	Cure    string `json:"cure,omitempty"`
	Restart bool   `json:"restart,omitempty"` // a daemon that is started anew could help
	Idle    bool   `json:"idle,omitempty"`    // nobody else would notice a restart

	Repeatable []string `json:"repeatable,omitempty"` // tools whose calls may be sent twice
	Address    string   `json:"address,omitempty"`    // of a listener
	Token      bool     `json:"token,omitempty"`      // it wants one
	Status     *Status  `json:"status,omitempty"`
}

// Codes of refusals that the daemon itself has; those about the start of a
// session are the assembly's.
const (
	CodeProtocol = "protocol"
	CodeInJob    = "in_job"
	CodeBusy     = "busy"
	CodePort     = "port"
	CodeHello    = "hello"
)

// Status is how the daemon is.
type Status struct {
	PID         int             `json:"pid"`
	Build       string          `json:"build"`
	Protocol    int             `json:"protocol"`
	Uptime      float64         `json:"uptime_seconds"`
	IdleAfter   float64         `json:"idle_after_seconds"` // 0: never
	Socket      string          `json:"socket"`
	LogFile     string          `json:"log_file"`
	Addresses   []string        `json:"addresses"` // of HTTP listeners
	Clients     []ClientProcess `json:"clients"`
	RunningJobs int             `json:"running_jobs"`
	Health      health.Report   `json:"health"`
}

// ClientProcess is one that has joined.
type ClientProcess struct {
	PID   int     `json:"pid"`
	Build string  `json:"build"`
	Root  string  `json:"root"`
	Age   float64 `json:"age_seconds"`
}

// Bye is what a daemon that ends on purpose says last to a session.
const Bye = `{"jsonrpc":"2.0","method":"notifications/daemon/bye"}` + "\n"

// Refused is an answer that is not OK.
type Refused struct{ Answer Answer }

func (e *Refused) Error() string { return e.Answer.Message }

// maxLine bounds a Hello; an environment may be large.
const maxLine = 8 << 20

var errTooLong = errors.New("the first line is too long")

// Read reads one line of JSON into v. It takes no byte behind the line from r.
func Read(r *bufio.Reader, v any) error {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > maxLine:
			return errTooLong
		case errors.Is(err, bufio.ErrBufferFull):
		case err != nil:
			if errors.Is(err, io.EOF) && len(line) > 0 {
				err = io.ErrUnexpectedEOF
			}
			return err
		default:
			if err := json.Unmarshal(bytes.TrimSpace(line), v); err != nil {
				return fmt.Errorf("the first line: %w", err)
			}
			return nil
		}
	}
}

// Write writes v as one line of JSON.
func Write(w io.Writer, v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode %T: %w", v, err)
	}
	_, err = w.Write(append(line, '\n'))
	return err
}
