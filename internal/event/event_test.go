package event_test

import (
	"testing"

	"github.com/async-crud-mcp/async-crud-mcp/internal/event"
)

func TestEverySubscriberSeesEventsInOrder(t *testing.T) {
	var bus event.Bus
	a, b := bus.Subscribe(4), bus.Subscribe(4)
	bus.Publish(event.Event{Kind: event.SessionStarted, Session: "1"})
	bus.Publish(event.Event{Kind: event.SessionEnded, Session: "1"})
	for _, s := range []*event.Subscription{a, b} {
		first, second := <-s.C, <-s.C
		if first.Kind != event.SessionStarted || second.Kind != event.SessionEnded {
			t.Errorf("got %s, %s", first.Kind, second.Kind)
		}
		if first.Time.IsZero() {
			t.Error("the event has no time")
		}
	}
}

func TestSlowSubscriberLosesEventsAndIsTold(t *testing.T) {
	var bus event.Bus
	s := bus.Subscribe(1)
	for range 3 {
		bus.Publish(event.Event{Kind: event.ToolsChanged}) // must not block
	}
	if got := s.Dropped(); got != 2 {
		t.Errorf("Dropped = %d, want 2", got)
	}
}

func TestCloseEndsTheChannelAndMayBeRepeated(t *testing.T) {
	var bus event.Bus
	s := bus.Subscribe(1)
	s.Close()
	s.Close()
	bus.Publish(event.Event{Kind: event.ToolsChanged})
	if _, open := <-s.C; open {
		t.Error("the channel is still open")
	}
	var none *event.Bus
	none.Publish(event.Event{}) // a nil bus takes events
}
