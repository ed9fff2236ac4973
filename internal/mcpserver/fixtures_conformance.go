//go:build conformance

package mcpserver

import "github.com/modelcontextprotocol/go-sdk/mcp"

// fixtureEvents lets a tool close its own stream and answer on the next one,
// which one scenario looks at. A client that goes away still cancels its calls.
func fixtureEvents() mcp.EventStore { return mcp.NewMemoryEventStore(nil) }
