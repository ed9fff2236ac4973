package mcpserver

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

func TestTicketIsGoodForOneResult(t *testing.T) {
	l := newLink(&session{}, "", nil)
	r := &toolResult{body: json.RawMessage(`{"status":"ok"}`), link: l}
	carried, err := json.Marshal(r)
	if err != nil || len(carried) > 40 {
		t.Fatalf("the SDK carries %s, %v; want a ticket", carried, err)
	}
	id, err := jsonrpc.MakeID(float64(7))
	if err != nil {
		t.Fatal(err)
	}
	res := &jsonrpc.Response{ID: id, Result: carried}
	const want = `{"jsonrpc":"2.0","id":7,"result":{"content":[{"type":"text","text":"{\"status\":\"ok\"}"}],"structuredContent":{"status":"ok"},"isError":false}}`
	if got := string(l.encodeResponse(res)); got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
	if len(l.later) != 0 {
		t.Errorf("%d results are still kept", len(l.later))
	}
	if got := string(l.encodeResponse(res)); strings.Contains(got, "status") {
		t.Errorf("a ticket was good twice: %s", got)
	}
	res.Result = json.RawMessage(`{"tools":[]}`)
	if got, want := string(l.encodeResponse(res)), `{"jsonrpc":"2.0","id":7,"result":{"tools":[]}}`; got != want {
		t.Errorf("another result: got %s, want %s", got, want)
	}
}
