package dataplane

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/prometheus/client_golang/prometheus"
)

// TestWhyAStreamEnded: an error of the body takes precedence over the decoder's error that follows from it, and the end of a body
// is not an error.
func TestWhyAStreamEnded(t *testing.T) {
	garbage, lost := errors.New("gzip: invalid header"), errors.New("connection reset")
	for name, tt := range map[string]struct {
		body io.Reader
		err  error // of the decoder
		want string
	}{
		"garbage":                 {strings.NewReader("x"), garbage, "encoding gzip: invalid header"},
		"garbage with its end":    {iotest.DataErrReader(strings.NewReader("x")), garbage, "encoding gzip: invalid header"},
		"the end":                 {strings.NewReader("x"), io.EOF, "broken stream ended"},
		"the end within a member": {iotest.DataErrReader(strings.NewReader("x")), io.ErrUnexpectedEOF, "broken stream ended"},
		"a lost connection":       {io.MultiReader(strings.NewReader("x"), iotest.ErrReader(lost)), garbage, "broken connection reset"},
		"a large event":           {iotest.ErrReader(lost), errEventTooLarge, "too_large " + errEventTooLarge.Error()},
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		received := prometheus.NewCounter(prometheus.CounterOpts{Name: "received"})
		w := newWatchdog(tt.body, cancel, received)
		_, _ = io.Copy(io.Discard, struct{ io.Reader }{w})
		f := w.cause(ctx, tt.err)
		if got := string(f.Reason) + " " + f.Err.Error(); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
		cancel(errSilence)
		if f := w.cause(ctx, tt.err); f.Reason != ReasonSilent {
			t.Errorf("%s, and it was silent: %s", name, f.Reason)
		}
		w.stop()
	}
}
