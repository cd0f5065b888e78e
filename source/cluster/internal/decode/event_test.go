package decode

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/routesrv/routesrv/kube"
)

// services is the kind of the events that are read.
const services = kube.KindService

// stream is a stream with one event of each type.
const stream = `{"type":"ADDED","object":{"kind":"Service","apiVersion":"v1","metadata":{"namespace":"n","name":"a","resourceVersion":"7"},"spec":{"externalName":"x.org"}}}
{"type":"MODIFIED","object":{"kind":"Service","apiVersion":"v1","metadata":{"namespace":"n","name":"a","resourceVersion":"7"},"spec":{"externalName":"x.org"}}}
{"type":"BOOKMARK","object":{"kind":"Service","apiVersion":"v1","metadata":{"resourceVersion":"9"}}}
{"type":"DELETED","object":{"kind":"Service","apiVersion":"v1","metadata":{"namespace":"n","name":"a","resourceVersion":"7"},"spec":{"externalName":"x.org"}}}
{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","message":"too old","reason":"Expired","code":410}}
`

// read reads a stream to its end. The objects are decoded.
func read(body io.Reader, limit int64) (all []string, err error) {
	in := NewEvents(services, body, limit)
	for {
		e, err := in.Next()
		if err != nil {
			return all, err
		}
		text := fmt.Sprintf("%s %s/%s %d", e.Type, e.Namespace, e.Name, e.Revision)
		if e.Status != nil {
			text += fmt.Sprint(" ", e.Status.Code, " ", e.Status.Reason, " ", e.Status.Message)
		}
		if e.Object != nil {
			o, err := Object(services, MediaJSON, e.Object)
			text += fmt.Sprintf(" %v %v", o.(*kube.Service).ExternalName, err)
		}
		all = append(all, text)
	}
}

func TestEventsAreWhatTheStreamSays(t *testing.T) {
	want := []string{"ADDED n/a 7 x.org <nil>", "MODIFIED n/a 7 x.org <nil>", "BOOKMARK / 9", "DELETED n/a 7 x.org <nil>", "ERROR / 0 410 Expired too old"}
	got, err := read(iotest.OneByteReader(strings.NewReader(stream)), 1<<20)
	if d := cmp.Diff(want, got); d != "" || !errors.Is(err, io.EOF) {
		t.Errorf("%v -want +got\n%s", err, d)
	}
}

// A stream that breaks has its events up to there, and ends as agreed only between two of them.
func TestAStreamEndsBetweenTwoEventsOnly(t *testing.T) {
	all, _ := read(strings.NewReader(stream), 1<<20)
	ends := 0
	for n := range len(stream) + 1 {
		got, err := read(strings.NewReader(stream[:n]), 1<<20)
		if !slices.Equal(all[:len(got)], got) {
			t.Fatalf("%d bytes: %q, want the first of %q", n, got, all)
		}
		switch {
		case errors.Is(err, io.EOF):
			ends++
		case !errors.Is(err, io.ErrUnexpectedEOF):
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	if ends != 11 { // an event is complete without its line feed
		t.Errorf("%d ends, want 11", ends)
	}
	broken := errors.New("the network")
	if _, err := read(io.MultiReader(strings.NewReader(stream), iotest.ErrReader(broken)), 1<<20); !errors.Is(err, broken) {
		t.Errorf("%v, want the error of the network", err)
	}
}

func TestWhatIsNoEventIsABadOne(t *testing.T) {
	for _, tt := range []struct{ name, body string }{
		{"a page", "<html>"},
		{"a number", "7 "},
		{"no type", `{"object":{"kind":"Service","apiVersion":"v1"}}`},
		{"no object", `{"type":"ADDED"}`},
		{"another type", strings.Replace(stream, "ADDED", "OTHER", 1)},
		{"another kind", strings.Replace(stream, "Service", "Pod", 1)},
		{"another version", strings.Replace(stream, `"v1"`, `"v2"`, 1)},
		{"no name", strings.Replace(stream, `"name":"a"`, `"name":""`, 1)},
		{"an opaque revision", strings.Replace(stream, `"7"`, `"x7"`, 1)},
		{"too large", `{"type":"ADDED","x":"` + strings.Repeat("x", 5000)},
	} {
		got, err := read(strings.NewReader(tt.body), 2000)
		if bad := (*BadEventError)(nil); len(got) != 0 || !errors.As(err, &bad) {
			t.Errorf("%s: %q, %v, want a bad event", tt.name, got, err)
		}
	}
}

// FuzzEvents: whatever comes is read to an end without a panic, and in pieces as it is as a whole.
func FuzzEvents(f *testing.F) {
	f.Add(stream)
	f.Add(stream[:len(stream)-9])
	f.Add(strings.Repeat("[", 20000))
	f.Fuzz(func(t *testing.T, body string) {
		whole, err := read(strings.NewReader(body), 10000)
		pieces, again := read(iotest.OneByteReader(strings.NewReader(body)), 10000)
		if err == nil || again == nil {
			t.Fatalf("%v, %v: a stream without an end", err, again)
		}
		// How much is read ahead decides where a stream is found to be too large, and nothing else.
		if errors.Is(err, ErrTooLarge) || errors.Is(again, ErrTooLarge) {
			return
		}
		if d := cmp.Diff(whole, pieces); d != "" {
			t.Errorf("-as a whole +in pieces\n%s", d)
		}
	})
}
