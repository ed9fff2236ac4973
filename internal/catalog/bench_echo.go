//go:build bench

package catalog

import (
	"context"

	"github.com/async-crud-mcp/async-crud-mcp/internal/tool"
)

type echoIn struct {
	Text string `json:"text" jsonschema:"what to say"`
}

type echoOut struct {
	Status string `json:"status"`
	Text   string `json:"text"`
}

func extra() []*tool.Tool {
	return []*tool.Tool{tool.New(tool.Spec{
		Name: "echo", Title: "Echo", Doc: "Return the text; for measurements.", Toolset: Project,
	}, func(_ context.Context, in echoIn) (echoOut, error) {
		return echoOut{Status: tool.OK, Text: in.Text}, nil
	})}
}
