// Command async-crud-mcp is one MCP server between a fleet of AI agents and a
// code base. See the README.
package main

import (
	"os"

	"github.com/async-crud-mcp/async-crud-mcp/internal/cli"
)

//go:generate go run . __docs ../../docs

func main() { os.Exit(cli.Main()) }
