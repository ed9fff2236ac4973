//go:build conformance

package mcpserver

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"maps"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

//lint:file-ignore SA1019 the suites look at what the protocol is about to drop, too

// The fixtures the official conformance suites ask a server for: tools,
// resources and prompts under fixed names with fixed answers. They exist only
// in a build with the tag conformance; each says in its text what a scenario
// looks at. Tools that ask their client for something come twice, since the two
// protocol eras differ: test_elicitation and its like send a request while they
// run, test_input_required_result_… return what they need and are called again.

// fixture is a tool of the suites.
type fixture struct {
	name, doc string
	input     string // JSON Schema; "": no arguments
	call      mcp.ToolHandler
}

const noArguments = `{"type":"object"}`

// addFixtures registers everything the suites look for.
func addFixtures(s *mcp.Server) {
	sign := newSigner()
	tools := append(contentFixtures(), clientFixtures()...)
	tools = append(tools, statelessFixtures(s)...)
	tools = append(tools, inputFixtures(sign)...)
	for _, f := range tools {
		schema := f.input
		if schema == "" {
			schema = noArguments
		}
		s.AddTool(&mcp.Tool{Name: f.name, Description: f.doc, InputSchema: json.RawMessage(schema)}, f.call)
	}
	addResourceFixtures(s)
	addPromptFixtures(s)
}

// fixtureOptions switches on what the suites need beside the fixtures.
func fixtureOptions(o *mcp.ServerOptions) {
	complete, subscribe := o.CompletionHandler, o.SubscribeHandler
	o.CompletionHandler = func(ctx context.Context, req *mcp.CompleteRequest) (*mcp.CompleteResult, error) {
		if complete != nil && !strings.HasPrefix(req.Params.Ref.Name, "test_") && !strings.HasPrefix(req.Params.Ref.URI, "test://") {
			return complete(ctx, req)
		}
		return &mcp.CompleteResult{Completion: mcp.CompletionResultDetails{Values: []string{}}}, nil
	}
	o.SubscribeHandler = func(ctx context.Context, req *mcp.SubscribeRequest) error {
		if subscribe != nil && !strings.HasPrefix(req.Params.URI, "test://") {
			return subscribe(ctx, req)
		}
		return nil
	}
	o.UnsubscribeHandler = func(context.Context, *mcp.UnsubscribeRequest) error { return nil }
}

// contentFixtures answer with each kind of content.
func contentFixtures() []fixture {
	return []fixture{
		{
			name: "test_simple_text", doc: "Answers with a text.",
			call: answer(text("This is a simple text response for testing.")),
		},
		{
			name: "test_image_content", doc: "Answers with an image.",
			call: answer(picture()),
		},
		{
			name: "test_audio_content", doc: "Answers with a sound.",
			call: answer(&mcp.AudioContent{Data: silence(), MIMEType: "audio/wav"}),
		},
		{
			name: "test_embedded_resource", doc: "Answers with a resource.",
			call: answer(embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")),
		},
		{
			name: "test_multiple_content_types", doc: "Answers with a text, an image and a resource.",
			call: answer(text("Multiple content types test:"), picture(),
				embedded("test://mixed-content-resource", "application/json", `{"test":"data","value":123}`)),
		},
		{
			name: "test_error_handling", doc: "Always fails.",
			call: func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{text("This tool intentionally returns an error for testing")}}, nil
			},
		},
		{
			name: "json_schema_2020_12_tool", doc: "Has an input schema with the keywords of JSON Schema 2020-12.",
			call: answer(text("JSON Schema 2020-12 accepted")),
			input: `{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object",
				"$defs":{"address":{"$anchor":"addressDef","type":"object","properties":{"street":{"type":"string"},"city":{"type":"string"}}}},
				"properties":{"name":{"type":"string"},"address":{"$ref":"#/$defs/address"},
					"contactMethod":{"type":"string","enum":["phone","email"]},"phone":{"type":"string"},"email":{"type":"string"}},
				"allOf":[{"anyOf":[{"required":["phone"]},{"required":["email"]}]}],
				"if":{"properties":{"contactMethod":{"const":"phone"}},"required":["contactMethod"]},
				"then":{"required":["phone"]},"else":{"required":["email"]},"additionalProperties":false}`,
		},
		{
			name: "test_header_parameter", doc: "Wants its argument repeated in a request header.",
			call:  answer(text("header accepted")),
			input: `{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}},"required":["region"]}`,
		},
	}
}

// clientFixtures talk to their client while they run.
func clientFixtures() []fixture {
	return []fixture{
		{
			name: "test_tool_with_logging", doc: "Logs three messages while it runs.",
			call: func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				for i, message := range []string{"Tool execution started", "Tool processing data", "Tool execution completed"} {
					if err := pause(ctx, i); err != nil {
						return nil, err
					}
					if err := req.Session.Log(ctx, &mcp.LoggingMessageParams{Level: "info", Data: message}); err != nil {
						return nil, err
					}
				}
				return said("logged three messages")
			},
		},
		{
			name: "test_tool_with_progress", doc: "Reports its progress three times.",
			call: func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				for i, done := range []float64{0, 50, 100} {
					if err := pause(ctx, i); err != nil {
						return nil, err
					}
					token := req.Params.GetProgressToken()
					if token == nil {
						continue
					}
					p := &mcp.ProgressNotificationParams{ProgressToken: token, Progress: done, Total: 100}
					if err := req.Session.NotifyProgress(ctx, p); err != nil {
						return nil, err
					}
				}
				return said("progressed to 100")
			},
		},
		{
			name: "test_reconnection", doc: "Closes its response stream and answers on the next one.",
			call: func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				if leave := req.Extra.CloseSSEStream; leave != nil {
					leave(mcp.CloseSSEStreamArgs{RetryAfter: 10 * time.Millisecond})
				}
				if err := pause(ctx, 2); err != nil {
					return nil, err
				}
				return said("answered after the stream was closed")
			},
		},
		{
			name: "test_sampling", doc: "Has the client's model complete a prompt.",
			input: `{"type":"object","properties":{"prompt":{"type":"string"}},"required":["prompt"]}`,
			call: func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				var in struct{ Prompt string }
				if err := json.Unmarshal(req.Params.Arguments, &in); err != nil {
					return nil, err
				}
				got, err := req.Session.CreateMessage(ctx, &mcp.CreateMessageParams{
					MaxTokens: 100,
					Messages:  []*mcp.SamplingMessage{{Role: "user", Content: text(in.Prompt)}},
				})
				if err != nil {
					return nil, err
				}
				return said("LLM response: %s", plain(got.Content))
			},
		},
		{
			name: "test_elicitation", doc: "Asks the person for a name and an address.",
			input: `{"type":"object","properties":{"message":{"type":"string"}},"required":["message"]}`,
			call: func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				var in struct{ Message string }
				if err := json.Unmarshal(req.Params.Arguments, &in); err != nil {
					return nil, err
				}
				return elicited(ctx, req, in.Message, `{"type":"object","required":["username","email"],"properties":{
					"username":{"type":"string","description":"User's response"},
					"email":{"type":"string","description":"User's email address"}}}`)
			},
		},
		{
			name: "test_elicitation_sep1034_defaults", doc: "Asks the person with a form that has defaults.",
			call: func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				return elicited(ctx, req, "Please check these values", `{"type":"object","properties":{
					"name":{"type":"string","default":"John Doe"},
					"age":{"type":"integer","default":30},
					"score":{"type":"number","default":95.5},
					"status":{"type":"string","enum":["active","inactive","pending"],"default":"active"},
					"verified":{"type":"boolean","default":true}}}`)
			},
		},
		{
			name: "test_elicitation_sep1330_enums", doc: "Asks the person with a form that has every kind of choice.",
			call: func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				return elicited(ctx, req, "Please choose", `{"type":"object","properties":{
					"untitledSingle":{"type":"string","enum":["option1","option2","option3"]},
					"titledSingle":{"type":"string","oneOf":[{"const":"value1","title":"First Option"},{"const":"value2","title":"Second Option"},{"const":"value3","title":"Third Option"}]},
					"legacyEnum":{"type":"string","enum":["opt1","opt2","opt3"],"enumNames":["Option One","Option Two","Option Three"]},
					"untitledMulti":{"type":"array","items":{"type":"string","enum":["option1","option2","option3"]}},
					"titledMulti":{"type":"array","items":{"anyOf":[{"const":"value1","title":"First Choice"},{"const":"value2","title":"Second Choice"},{"const":"value3","title":"Third Choice"}]}}}}`)
			},
		},
	}
}

// statelessFixtures show how the server behaves where there are no sessions.
func statelessFixtures(s *mcp.Server) []fixture {
	return []fixture{
		{
			name: "test_missing_capability", doc: "Needs a client that can sample.",
			call: func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				if c := req.ClientCapabilities(); c != nil && c.Sampling != nil {
					return said("the client can sample")
				}
				data, err := json.Marshal(mcp.MissingRequiredClientCapabilityData{
					RequiredCapabilities: &mcp.ClientCapabilities{Sampling: &mcp.SamplingCapabilities{}},
				})
				if err != nil {
					return nil, err
				}
				return nil, &jsonrpc.Error{
					Code: mcp.CodeMissingRequiredClientCapabilities, Message: "sampling is required", Data: data,
				}
			},
		},
		{
			name: "test_streaming_elicitation", doc: "Needs the person's word; never sends a request of its own.",
			call: rounds(nil, ask{"confirmation", confirm}),
		},
		{
			name: "test_logging_tool", doc: "Logs a message, which only a client that asked for logs may see.",
			call: func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				if err := req.Session.Log(ctx, &mcp.LoggingMessageParams{Level: "info", Data: "a log message"}); err != nil {
					return nil, err
				}
				return said("logged one message")
			},
		},
		{
			name: "test_trigger_tool_change", doc: "Changes the list of tools, for a moment.",
			call: func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				const name = "test_passing_tool"
				s.AddTool(&mcp.Tool{Name: name, Description: "Comes and goes.", InputSchema: json.RawMessage(noArguments)}, answer(text(name)))
				s.RemoveTools(name)
				return said("the tools changed")
			},
		},
		{
			name: "test_trigger_prompt_change", doc: "Changes the list of prompts, for a moment.",
			call: func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				const name = "test_passing_prompt"
				s.AddPrompt(&mcp.Prompt{Name: name, Description: "Comes and goes."}, prompt(text(name)))
				s.RemovePrompts(name)
				return said("the prompts changed")
			},
		},
	}
}

// ask is one thing a tool needs from its client, under a key of its own.
type ask struct {
	key string
	req mcp.InputRequest
}

// form is a question with one field.
func form(message, field, kind string) *mcp.ElicitParams {
	return &mcp.ElicitParams{Message: message, RequestedSchema: json.RawMessage(fmt.Sprintf(
		`{"type":"object","properties":{%q:{"type":%q}},"required":[%q]}`, field, kind, field))}
}

var (
	confirm  = form("Please confirm", "ok", "boolean")
	userName = form("What is your name?", "name", "string")
	roots    = &mcp.ListRootsParams{}
)

func sampling(question string) *mcp.CreateMessageWithToolsParams {
	return &mcp.CreateMessageWithToolsParams{
		MaxTokens: 100,
		Messages:  []*mcp.SamplingMessageV2{{Role: "user", Content: []mcp.Content{text(question)}}},
	}
}

// inputFixtures return what they need and are called again with it.
func inputFixtures(sign *signer) []fixture {
	return []fixture{
		{
			name: "test_input_required_result_elicitation", doc: "Needs a name.",
			call: rounds(nil, ask{"user_name", userName}),
		},
		{
			name: "test_input_required_result_sampling", doc: "Needs a completion.",
			call: rounds(nil, ask{"capital_question", sampling("What is the capital of France?")}),
		},
		{
			name: "test_input_required_result_list_roots", doc: "Needs the client's roots.",
			call: rounds(nil, ask{"client_roots", roots}),
		},
		{
			name: "test_input_required_result_request_state", doc: "Needs a confirmation and its own state back.",
			call: rounds(sign, ask{"confirm", confirm}),
		},
		{
			name: "test_input_required_result_tampered_state", doc: "Refuses a state that is not its own.",
			call: rounds(sign, ask{"confirm", confirm}),
		},
		{
			name: "test_input_required_result_multi_round", doc: "Needs two answers, one after the other.",
			call: func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				step := 1
				if req.Params.RequestState != "" {
					state, err := sign.open(req.Params.RequestState)
					if err != nil {
						return nil, err
					}
					if _, err := fmt.Sscan(state, &step); err != nil {
						return nil, err
					}
				}
				questions := []*mcp.ElicitParams{
					form("Step 1: What is your name?", "name", "string"),
					form("Step 2: What is your favorite color?", "color", "string"),
				}
				if _, answered := req.Params.InputResponses[fmt.Sprintf("step%d", step)]; answered {
					step++
				}
				if step > len(questions) {
					return said("both steps answered")
				}
				return &mcp.CallToolResult{
					InputRequests: mcp.InputRequestMap{fmt.Sprintf("step%d", step): questions[step-1]},
					RequestState:  sign.seal(fmt.Sprint(step)),
				}, nil
			},
		},
		{
			name: "test_input_required_result_multiple_inputs", doc: "Needs three things at once.",
			call: rounds(sign, ask{"user_name", userName}, ask{"greeting", sampling("Generate a greeting")}, ask{"client_roots", roots}),
		},
		{
			name: "test_input_required_result_capabilities", doc: "Asks only for what the client can give.",
			call: func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				var able []ask
				if c := req.ClientCapabilities(); c != nil {
					if c.Elicitation != nil {
						able = append(able, ask{"user_name", userName})
					}
					if c.Sampling != nil {
						able = append(able, ask{"greeting", sampling("Generate a greeting")})
					}
				}
				return rounds(nil, able...)(ctx, req)
			},
		},
	}
}

// rounds answers once every ask has its response, and asks until then. With a
// signer it also hands out a state and insists on getting it back.
func rounds(sign *signer, asks ...ask) mcp.ToolHandler {
	return func(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		missing := make(mcp.InputRequestMap)
		for _, a := range asks {
			if _, ok := req.Params.InputResponses[a.key]; !ok {
				missing[a.key] = a.req
			}
		}
		if len(missing) > 0 {
			res := &mcp.CallToolResult{InputRequests: missing}
			if sign != nil {
				res.RequestState = sign.seal(req.Params.Name)
			}
			return res, nil
		}
		verdict := ""
		if sign != nil {
			if state, err := sign.open(req.Params.RequestState); err != nil || state != req.Params.Name {
				return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "requestState is not the one handed out"}
			}
			verdict = "state-ok: "
		}
		var b strings.Builder
		for _, a := range asks {
			fmt.Fprintf(&b, "%s ", describe(req.Params.InputResponses[a.key]))
		}
		return said("%sHello, %s", verdict, b.String())
	}
}

// describe renders an answer of the client.
func describe(r mcp.InputResponse) string {
	switch r := r.(type) {
	case *mcp.ElicitResult:
		return fmt.Sprint(r.Content)
	case *mcp.CreateMessageWithToolsResult:
		var b strings.Builder
		for _, c := range r.Content {
			b.WriteString(plain(c))
		}
		return b.String()
	case *mcp.ListRootsResult:
		var b strings.Builder
		for _, root := range r.Roots {
			b.WriteString(root.URI)
		}
		return b.String()
	}
	return fmt.Sprintf("%T", r)
}

// signer makes states a client can carry but not change.
type signer struct{ key []byte }

func newSigner() *signer {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	return &signer{key}
}

func (s *signer) mac(state string) string {
	h := hmac.New(sha256.New, s.key)
	h.Write([]byte(state))
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}

func (s *signer) seal(state string) string { return state + "." + s.mac(state) }

func (s *signer) open(sealed string) (string, error) {
	at := strings.LastIndexByte(sealed, '.')
	if at < 0 || !hmac.Equal([]byte(s.mac(sealed[:at])), []byte(sealed[at+1:])) {
		return "", &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "requestState was changed on its way"}
	}
	return sealed[:at], nil
}

func addResourceFixtures(s *mcp.Server) {
	for _, c := range []*mcp.ResourceContents{
		{URI: "test://static-text", MIMEType: "text/plain", Text: "This is the content of the static text resource."},
		{URI: "test://static-binary", MIMEType: "image/png", Blob: pixel()},
		{URI: "test://watched-resource", MIMEType: "text/plain", Text: "This resource can be watched."},
	} {
		s.AddResource(&mcp.Resource{URI: c.URI, Name: strings.TrimPrefix(c.URI, "test://"), MIMEType: c.MIMEType, Description: "A resource of the conformance suites."},
			func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
				return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{c}}, nil
			})
	}
	s.AddResourceTemplate(&mcp.ResourceTemplate{URITemplate: "test://template/{id}/data", Name: "template", MIMEType: "application/json", Description: "A resource template of the conformance suites."},
		func(_ context.Context, req *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
			id := strings.TrimSuffix(strings.TrimPrefix(req.Params.URI, "test://template/"), "/data")
			body, err := json.Marshal(map[string]any{"id": id, "templateTest": true, "data": "Data for ID: " + id})
			if err != nil {
				return nil, err
			}
			return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: req.Params.URI, MIMEType: "application/json", Text: string(body)}}}, nil
		})
}

func addPromptFixtures(s *mcp.Server) {
	s.AddPrompt(&mcp.Prompt{Name: "test_simple_prompt", Description: "A prompt without arguments."},
		prompt(text("This is a simple prompt for testing.")))
	s.AddPrompt(&mcp.Prompt{Name: "test_prompt_with_image", Description: "A prompt with an image."},
		prompt(picture(), text("Please analyze the image above.")))
	s.AddPrompt(&mcp.Prompt{
		Name: "test_prompt_with_arguments", Description: "A prompt with two arguments.",
		Arguments: []*mcp.PromptArgument{
			{Name: "arg1", Description: "First test argument", Required: true},
			{Name: "arg2", Description: "Second test argument", Required: true},
		},
	}, func(ctx context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		args := req.Params.Arguments
		return prompt(text(fmt.Sprintf("Prompt with arguments: arg1='%s', arg2='%s'", args["arg1"], args["arg2"])))(ctx, req)
	})
	s.AddPrompt(&mcp.Prompt{
		Name: "test_prompt_with_embedded_resource", Description: "A prompt that embeds a resource.",
		Arguments: []*mcp.PromptArgument{{Name: "resourceUri", Description: "URI of the resource to embed", Required: true}},
	}, func(ctx context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		return prompt(embedded(req.Params.Arguments["resourceUri"], "text/plain", "Embedded resource content for testing."),
			text("Please process the embedded resource above."))(ctx, req)
	})
	s.AddPrompt(&mcp.Prompt{Name: "test_input_required_result_prompt", Description: "A prompt that needs a context first."},
		func(ctx context.Context, req *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
			given, ok := req.Params.InputResponses["user_context"]
			if !ok {
				return &mcp.GetPromptResult{InputRequests: mcp.InputRequestMap{
					"user_context": form("What context should the prompt use?", "context", "string"),
				}}, nil
			}
			return prompt(text("Use this context: "+describe(given)))(ctx, req)
		})
}

func text(s string) *mcp.TextContent { return &mcp.TextContent{Text: s} }

func picture() *mcp.ImageContent { return &mcp.ImageContent{Data: pixel(), MIMEType: "image/png"} }

func embedded(uri, mime, content string) *mcp.EmbeddedResource {
	return &mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: uri, MIMEType: mime, Text: content}}
}

func plain(c mcp.Content) string {
	if t, ok := c.(*mcp.TextContent); ok {
		return t.Text
	}
	return fmt.Sprintf("%T", c)
}

func answer(content ...mcp.Content) mcp.ToolHandler {
	return func(context.Context, *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		return &mcp.CallToolResult{Content: content}, nil
	}
}

func said(format string, args ...any) (*mcp.CallToolResult, error) {
	return &mcp.CallToolResult{Content: []mcp.Content{text(fmt.Sprintf(format, args...))}}, nil
}

func prompt(content ...mcp.Content) mcp.PromptHandler {
	return func(context.Context, *mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
		res := &mcp.GetPromptResult{}
		for _, c := range content {
			res.Messages = append(res.Messages, &mcp.PromptMessage{Role: "user", Content: c})
		}
		return res, nil
	}
}

// elicited asks the person behind req and reports what they said.
func elicited(ctx context.Context, req *mcp.CallToolRequest, message, schema string) (*mcp.CallToolResult, error) {
	got, err := req.Session.Elicit(ctx, &mcp.ElicitParams{Message: message, RequestedSchema: json.RawMessage(schema)})
	if err != nil {
		return nil, err
	}
	return said("Elicitation completed: action=%s, content=%v", got.Action, maps.Collect(maps.All(got.Content)))
}

// pause waits n moments, so that what came before is seen on its own.
func pause(ctx context.Context, n int) error {
	select {
	case <-time.After(time.Duration(n) * 50 * time.Millisecond):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// pixel is a PNG of one red pixel.
func pixel() []byte {
	img := image.NewRGBA(image.Rect(0, 0, 1, 1))
	img.Set(0, 0, color.RGBA{R: 255, A: 255})
	var b bytes.Buffer
	if err := png.Encode(&b, img); err != nil {
		panic(err) // a buffer takes everything
	}
	return b.Bytes()
}

// silence is a WAV file of four samples.
func silence() []byte {
	const rate, samples = 8000, 4
	var b bytes.Buffer
	put := func(v ...any) {
		for _, x := range v {
			if err := binary.Write(&b, binary.LittleEndian, x); err != nil {
				panic(err)
			}
		}
	}
	b.WriteString("RIFF")
	put(uint32(36 + samples))
	b.WriteString("WAVEfmt ")
	put(uint32(16), uint16(1), uint16(1), uint32(rate), uint32(rate), uint16(1), uint16(8))
	b.WriteString("data")
	put(uint32(samples), []byte{128, 128, 128, 128})
	return b.Bytes()
}
