package catalog

import (
	"maps"
	"slices"
	"strings"

	"github.com/async-crud-mcp/async-crud-mcp/internal/alias"
	"github.com/async-crud-mcp/async-crud-mcp/internal/config"
	"github.com/async-crud-mcp/async-crud-mcp/internal/tool"
)

// What each tool tells observers of its calls, all in one place, so that one look
// shows what the record of calls can hold: paths, hashes and sizes, and of
// settings their names.

// hashed is s when it is a hash: what a caller sends in its place may be
// anything.
func hashed(s string) string {
	digits, ok := strings.CutPrefix(s, "sha256:")
	if ok && len(digits) == 64 && strings.Trim(digits, "0123456789abcdef") == "" {
		return s
	}
	return ""
}

func size(n int) *int64 {
	bytes := int64(n)
	return &bytes
}

// Tell implements tool.Teller.
func (in ReadIn) Tell(f *tool.Facts) { f.Path = in.Path }

// Tell implements tool.Teller.
func (o ReadOut) Tell(f *tool.Facts) { f.Path, f.Hash, f.Bytes = o.Path, o.Hash, size(len(o.Content)) }

// Tell implements tool.Teller.
func (in WriteIn) Tell(f *tool.Facts) { f.Path, f.Bytes = in.Path, size(len(in.Content)) }

// Tell implements tool.Teller.
func (o WriteOut) Tell(f *tool.Facts) { f.Path, f.Hash, f.Bytes = o.Path, o.Hash, &o.BytesWritten }

// Tell implements tool.Teller.
func (in UpdateIn) Tell(f *tool.Facts) { f.Path, f.Expected = in.Path, hashed(in.ExpectedHash) }

// Tell implements tool.Teller.
func (o UpdateOut) Tell(f *tool.Facts) {
	f.Path, f.Previous, f.Hash, f.Bytes, f.Merged = o.Path, o.PreviousHash, o.Hash, o.BytesWritten, o.Merged
	o.LateOut.tell(f)
}

// tell gives the hash that a late caller was told.
func (o *LateOut) tell(f *tool.Facts) {
	if o != nil && o.CurrentHash != "" {
		f.Hash = o.CurrentHash
	}
}

// Tell implements tool.Teller.
func (in DeleteIn) Tell(f *tool.Facts) { f.Path, f.Expected = in.Path, hashed(in.ExpectedHash) }

// Tell implements tool.Teller.
func (o DeleteOut) Tell(f *tool.Facts) {
	f.Path, f.Previous = o.Path, o.DeletedHash
	if o.DeletedEntries > 0 {
		f.Entries = &o.DeletedEntries
	}
	o.LateOut.tell(f)
}

// Tell implements tool.Teller.
func (in RenameIn) Tell(f *tool.Facts) {
	f.Path, f.To, f.Expected = in.OldPath, in.NewPath, hashed(in.ExpectedHash)
}

// Tell implements tool.Teller.
func (o RenameOut) Tell(f *tool.Facts) {
	if o.Status == tool.Contention {
		f.Path = o.Path
	} else {
		f.Path, f.To, f.Hash = o.OldPath, o.NewPath, o.Hash
	}
	o.LateOut.tell(f)
}

// Tell implements tool.Teller.
func (in AppendIn) Tell(f *tool.Facts) {
	f.Path, f.Bytes = in.Path, size(len(in.Separator)+len(in.Content))
}

// Tell implements tool.Teller.
func (o AppendOut) Tell(f *tool.Facts) { f.Path, f.Hash, f.Bytes = o.Path, o.Hash, &o.BytesAppended }

// Tell implements tool.Teller.
func (in CopyIn) Tell(f *tool.Facts) { f.Path, f.To = in.From, in.To }

// Tell implements tool.Teller.
func (o CopyOut) Tell(f *tool.Facts) {
	f.Path, f.To, f.Hash, f.Bytes = o.From, o.To, o.Hash, &o.BytesWritten
}

// Tell implements tool.Teller.
func (in ListIn) Tell(f *tool.Facts) { f.Path = in.Path }

// Tell implements tool.Teller.
func (o ListOut) Tell(f *tool.Facts) { f.Path, f.Entries = o.Path, &o.TotalEntries }

// Tell implements tool.Teller.
func (in StatusIn) Tell(f *tool.Facts) { f.Path = in.Path }

// Tell implements tool.Teller.
func (o StatusOut) Tell(f *tool.Facts) {
	f.Path = o.Path
	if o.Hash != nil {
		f.Hash = string(*o.Hash)
	}
}

// Tell implements tool.Teller.
func (in MkdirIn) Tell(f *tool.Facts) { f.Path = in.Path }

// Tell implements tool.Teller.
func (o MkdirOut) Tell(f *tool.Facts) { f.Path = o.Path }

// Tell implements tool.Teller.
func (in BatchReadIn) Tell(f *tool.Facts) {
	for _, item := range in.Files {
		f.Items = append(f.Items, tool.Facts{Path: item.Path})
	}
}

// Tell implements tool.Teller.
func (in BatchWriteIn) Tell(f *tool.Facts) {
	for _, item := range in.Files {
		f.Items = append(f.Items, tool.Facts{Path: item.Path, Bytes: size(len(item.Content))})
	}
}

// Tell implements tool.Teller.
func (in BatchUpdateIn) Tell(f *tool.Facts) {
	for _, item := range in.Files {
		f.Items = append(f.Items, tool.Facts{Path: item.Path, Expected: hashed(item.ExpectedHash)})
	}
}

// Tell implements tool.Teller.
func (o BatchOut) Tell(f *tool.Facts) {
	for i, r := range o.Results[:min(len(o.Results), len(f.Items))] {
		tool.Conclude(&f.Items[i], r.of)
	}
}

// Tell implements tool.Teller.
func (in ActivateProjectIn) Tell(f *tool.Facts) { f.Path = in.Path }

// Tell implements tool.Teller.
func (o ActivateProjectOut) Tell(f *tool.Facts) { f.Path, f.Project, f.Root = o.Root, o.ID, o.Root }

// Tell implements tool.Teller.
func (in GetConfigIn) Tell(f *tool.Facts) {
	if in.Section != "" {
		f.Settings = []string{in.Section}
	}
}

// Tell implements tool.Teller.
func (o GetConfigOut) Tell(f *tool.Facts) {
	if o.ID != nil {
		f.Project, f.Root = *o.ID, *o.Root
	}
}

// Tell implements tool.Teller: which settings, not their values, and nothing that
// is not the name of one.
func (in UpdateConfigIn) Tell(f *tool.Facts) {
	for _, name := range slices.Sorted(maps.Keys(in.Set)) {
		if key := config.KeyName(name); key != "" {
			f.Settings = append(f.Settings, key)
		}
	}
}

// Tell implements tool.Teller.
func (o UpdateConfigOut) Tell(f *tool.Facts) { f.Path, f.Root = o.File, o.Root }

// Tell implements tool.Teller.
func (in ExecIn) Tell(f *tool.Facts) {
	f.Command, f.Cwd, f.Env = in.Command, in.Cwd, slices.Sorted(maps.Keys(in.Env))
}

// Tell implements tool.Teller.
func (o ExecOut) Tell(f *tool.Facts) {
	f.Rule, f.Shell = o.Pattern, o.Shell
	tellJob(f, o.job)
	o.RanOut.tell(f)
}

// tellJob says where the output is, which is not kept in the record.
func tellJob(f *tool.Facts, id string) {
	if id != "" {
		f.Jobs = []string{id}
	}
}

func (o *RanOut) tell(f *tool.Facts) {
	if o != nil {
		f.ExitCode, f.OutputBytes = o.ExitCode, size(len(o.Stdout)+len(o.Stderr))
	}
}

// Tell implements tool.Teller.
func (in WaitIn) Tell(f *tool.Facts) { f.Jobs = in.TaskID }

// Tell implements tool.Teller.
func (o WaitOut) Tell(f *tool.Facts) {
	if o.TaskResult != nil {
		o.TaskResult.tell(f)
	}
}

// Tell implements tool.Teller.
func (in ShellIn) Tell(f *tool.Facts) { f.Command, f.Cwd = in.Command, in.WorkingDir }

// Tell implements tool.Teller.
func (o ShellOut) Tell(f *tool.Facts) {
	f.Shell = o.ShellUsed
	tellJob(f, o.job)
	if ran := o.ShellRanOut; ran != nil {
		f.ExitCode, f.TimedOut, f.OutputBytes = ran.ExitCode, ran.TimedOut, size(len(ran.Stdout)+len(ran.Stderr))
	}
}

// Tell implements tool.Teller.
func (e ShellError) Tell(f *tool.Facts) {
	f.Code = e.Error
	f.Rule, _ = e.Details["matched_pattern"].(string)
}

// Tell implements tool.Teller.
func (in JobIn) Tell(f *tool.Facts) { f.Jobs = []string{in.JobID} }

// Tell implements tool.Teller.
func (o JobOut) Tell(f *tool.Facts) { f.Command, f.ExitCode = o.Command, o.Status.ExitCode }

// Tell implements tool.Teller.
func (o JobsOut) Tell(f *tool.Facts) {
	n := len(o.Jobs)
	f.Entries = &n
}

// Tell implements tool.Teller.
func (in CommandIn) Tell(f *tool.Facts) { f.Command, f.Cwd = in.Command, in.WorkDir }

// Tell implements tool.Teller.
func (o CommandOut) Tell(f *tool.Facts) {
	tellJob(f, o.job)
	f.ExitCode, f.OutputBytes = o.ExitCode, size(len(o.Stdout)+len(o.Stderr))
}

// Tell implements tool.Teller.
func (e CommandError) Tell(f *tool.Facts) {
	f.Code, f.TimedOut, f.OutputBytes = e.Code, e.Timeout, size(len(e.Stdout)+len(e.Stderr))
	f.Rule, _ = e.Details["matched_pattern"].(string)
}

// Tell implements tool.Teller. What is no name of an alias may be anything.
func (in AliasExecIn) Tell(f *tool.Facts) {
	in.AliasRunIn.Tell(f)
	if alias.ValidName(in.Name) {
		f.Alias = in.Name
	}
}

// Tell implements tool.Teller.
func (in AliasRunIn) Tell(f *tool.Facts) { f.Args, f.Cwd, f.DryRun = in.Args, in.Cwd, in.DryRun }

// Tell implements tool.Teller.
func (o AliasExecOut) Tell(f *tool.Facts) {
	f.Alias, f.Command, f.Cwd, f.Shell, f.DryRun, f.Rule = o.alias, o.Command, o.Cwd, o.Shell, o.DryRun, o.Rule
	if o.DryRun {
		return
	}
	tellJob(f, o.job)
	f.ExitCode, f.TimedOut, f.OutputBytes = o.ExitCode, o.TimedOut, size(len(o.Stdout)+len(o.Stderr))
}

// Tell implements tool.Teller.
func (o AliasCatalogOut) Tell(f *tool.Facts) { f.Entries = &o.Total }
