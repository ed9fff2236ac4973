// Command async-crud-mcp is one MCP server between a fleet of AI agents and a
// code base. See the README.
package main

import (
	"os"

	"github.com/async-crud-mcp/async-crud-mcp/internal/cli"
	"github.com/async-crud-mcp/async-crud-mcp/internal/shell/sandbox/confine"
)

//go:generate go run . __docs ../../docs

func main() {
	confine.Main(os.Args) // as the sandbox's helper it goes no further
	os.Exit(cli.Main())
}
