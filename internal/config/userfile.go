package config

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/async-crud-mcp/async-crud-mcp/internal/config/document"
)

// EditUser returns the text of the user's file at path with keys set; null takes
// a key out. raw is what the file holds, nil when there is none. It keeps its
// format, its other keys and, but in TOML, its comments. A file that would be
// refused as a whole is an error. Nothing is written.
func EditUser(path string, raw []byte, set map[string]json.RawMessage) ([]byte, error) {
	format := document.Format(path)
	if raw == nil {
		raw = []byte(map[string]string{
			"json": fmt.Sprintf("{\"$schema\": %q, \"_version\": %q}", schemaURL, formatVersion),
			"yaml": fmt.Sprintf("# yaml-language-server: $schema=%s\n_version: %q\n", schemaURL, formatVersion),
			"toml": fmt.Sprintf("_version = %q\n", formatVersion),
		}[format])
	}
	text, err := edit(format, raw, set)
	if err != nil {
		return nil, err
	}
	if _, err := fileLayer("user", path, text, homeIn(os.Environ())); err != nil {
		return nil, err
	}
	return text, nil
}
