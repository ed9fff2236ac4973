package mcpserver

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Announce sends a message to the client of a session, as notifications/message,
// if the session is open and its client has asked for messages. It waits for the
// connection to take it: bound it by ctx.
func (s *Server) Announce(ctx context.Context, session, logger string, data any) error {
	s.mu.Lock()
	var sdk *mcp.ServerSession
	for sess := range s.open {
		if sess.id == session {
			sdk = sess.sdk
		}
	}
	s.mu.Unlock()
	if sdk == nil {
		return nil // it is gone, and with it who wanted to know
	}
	return sdk.Log(ctx, &mcp.LoggingMessageParams{Level: "info", Logger: logger, Data: data})
}
