//go:build !bench

package catalog

import "github.com/async-crud-mcp/async-crud-mcp/internal/tool"

// extra is where a build for measurements adds its echo tool.
func extra() []*tool.Tool { return nil }
