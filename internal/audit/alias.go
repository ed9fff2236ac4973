package audit

import "time"

// aliasCall is a line of the record of alias calls.
type aliasCall struct {
	Timestamp time.Time `json:"timestamp"`
	Alias     string    `json:"alias"`
	Args      string    `json:"args"`
	Cwd       string    `json:"cwd"`
	ExitCode  *int      `json:"exitCode"` // null: nothing was run, or it has not ended
	TimedOut  bool      `json:"timedOut"`
	DryRun    bool      `json:"dryRun"`
	Outcome   string    `json:"outcome"`
	Code      string    `json:"code,omitempty"`
}

// AliasLine makes the lines of a record that is about alias calls alone. It is an
// [Options.Line].
func AliasLine(r *Record) any {
	if r.Alias == "" {
		return nil
	}
	return aliasCall{
		Timestamp: r.Time, Alias: r.Alias, Args: r.Args, Cwd: r.Cwd, ExitCode: r.ExitCode, TimedOut: r.TimedOut,
		DryRun: r.DryRun, Outcome: r.Outcome, Code: string(r.Code),
	}
}
