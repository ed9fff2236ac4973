package catalog

import (
	"context"
	"path"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/async-crud-mcp/async-crud-mcp/internal/event"
	"github.com/async-crud-mcp/async-crud-mcp/internal/fault"
	"github.com/async-crud-mcp/async-crud-mcp/internal/files"
	"github.com/async-crud-mcp/async-crud-mcp/internal/tool"
)

// What comes with a file beside its content.
const (
	metaHash     = "async-crud-mcp/hash"
	metaEncoding = "async-crud-mcp/encoding"
	metaRedacted = "async-crud-mcp/redacted"
)

// FileResource declares file://: every file that async_read can read.
func FileResource(engine *files.Engine) *tool.Resource {
	return tool.NewResource(tool.ResourceSpec{
		Name: "file", Template: "file://{+path}", Title: "A file of the project", Toolset: Files, Beside: "async_read",
		Doc:   "A file by its absolute path, under the rules of async_read: text as text, anything else as a blob. _meta has the hash that async_update takes as expected_hash. Subscribe to hear when anybody changes the file, in the server or outside; it need not exist yet.",
		Codes: fileCodes(fault.FileNotFound, fault.EncodingError, fault.FileTooLarge, fault.IsADirectory, fault.NotARegularFile, fault.ContentBlocked, fault.LockTimeout),
		Examples: []tool.ResourceExample{
			{Title: "A file", URI: "file://{{root}}/hello.txt"},
			{Title: "A name with a space", URI: "file://{{root}}/a%20b.txt"},
			{Title: "A file that is not there", URI: "file://{{root}}/missing.txt", Code: fault.FileNotFound},
			{Title: "A path that is not absolute", URI: "file://hello.txt", Code: fault.ValidationError},
		},
		Read: func(ctx context.Context, ref tool.Ref) ([]tool.Content, error) {
			name, err := fileName(ref)
			if err != nil {
				return nil, err
			}
			f, err := engine.Fetch(ctx, name)
			if err != nil {
				return nil, err
			}
			return []tool.Content{fileContent(f)}, nil
		},
		Tell: func(f *tool.Facts, ref tool.Ref, contents []tool.Content) {
			f.Path, _ = fileName(ref)
			for _, c := range contents {
				f.Hash, _ = c.Meta[metaHash].(string)
				f.Bytes = size(max(len(c.Text), len(c.Blob)))
			}
		},
		Complete: func(ctx context.Context, c tool.Completion) ([]string, error) {
			return completePath(ctx, engine, c.Value)
		},
		Watch: func(ctx context.Context, ref tool.Ref) (tool.Watch, error) {
			name, err := fileName(ref)
			if err != nil {
				return tool.Watch{}, err
			}
			f, err := engine.Follow(ctx, name)
			if err != nil {
				return tool.Watch{}, err
			}
			return tool.Watch{
				Touched: func(e event.Event) bool {
					changed, ok := e.Data.(event.File)
					return ok && e.Kind == event.FileChanged && f.Concerns(changed)
				},
				MayRead: f.MayRead, Close: f.Close,
			}, nil
		},
	})
}

func fileContent(f *files.Fetched) tool.Content {
	c := tool.Content{MIME: mimeType(f.Path, f.Bytes == nil), Text: f.Text, Blob: f.Bytes, Meta: map[string]any{metaHash: f.Hash}}
	if f.Bytes == nil {
		c.Meta[metaEncoding] = f.Encoding
	}
	if f.Redacted > 0 {
		c.Meta[metaRedacted] = f.Redacted
	}
	return c
}

// fileName returns the path that a file address names.
func fileName(ref tool.Ref) (string, error) {
	name, ok := localPath(ref.Vars["path"], runtime.GOOS == "windows")
	if !ok {
		return "", fault.New(fault.ValidationError, "%s has no absolute path on this machine", ref.URI).
			With("field", "uri").With("next", "Write file:// and the absolute path behind it: file:///home/me/project/a.txt")
	}
	return name, nil
}

// localPath is the path of a file address as the system writes it. An address may
// name this machine, and no other.
func localPath(name string, windows bool) (string, bool) {
	if rest, ok := strings.CutPrefix(name, "localhost"); ok {
		name = rest
	}
	if !strings.HasPrefix(name, "/") || strings.HasPrefix(name, "//") {
		return "", false
	}
	if windows {
		name = strings.ReplaceAll(name[1:], "/", `\`)
		return name, len(name) > 2 && name[1] == ':' && name[2] == '\\'
	}
	return name, true
}

// urlPath is a local path as it stands in a file address.
func urlPath(name string) string {
	name = filepath.ToSlash(name)
	if !strings.HasPrefix(name, "/") {
		name = "/" + name // a drive
	}
	return name
}

// completePath proposes how the path of a file goes on: entries of the directory
// it leads into, or the directories where paths begin.
func completePath(ctx context.Context, engine *files.Engine, value string) ([]string, error) {
	at, err := engine.Overview(ctx)
	if err != nil {
		return nil, err
	}
	var proposed []string
	for _, base := range at.Bases {
		if base = urlPath(base) + "/"; strings.HasPrefix(base, value) && base != value {
			proposed = append(proposed, base)
		}
	}
	dir, begun := path.Split(value)
	local, ok := localPath(dir, runtime.GOOS == "windows")
	if len(proposed) > 0 || !ok {
		return proposed, nil
	}
	list, err := engine.List(ctx, files.ListRequest{Path: local, Pattern: "*"})
	if err != nil {
		return nil, err
	}
	for _, e := range list.Entries {
		if !strings.HasPrefix(e.Name, begun) || e.Other {
			continue
		}
		name := dir + e.Name
		if e.Dir {
			name += "/"
		}
		proposed = append(proposed, name)
	}
	return proposed, nil
}
