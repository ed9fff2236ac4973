//go:build !conformance

package mcpserver

import "github.com/modelcontextprotocol/go-sdk/mcp"

// A build with the tag conformance adds what the official suites look for; see
// conformance.go. Any other build adds nothing.

func addFixtures(*mcp.Server) {}

func fixtureOptions(*mcp.ServerOptions) {}

// fixtureEvents keeps the events of a stream for its resumption. Here nothing is
// kept: a client that goes away cancels its calls, so there is nothing to resume.
func fixtureEvents() mcp.EventStore { return nil }
