package dataplane

import (
	"bytes"
	"errors"
	"io"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/gzip"
)

// readEvents returns the events of a stream and the error that ended it.
func readEvents(r io.Reader, limit int) ([]event, error) {
	events := newEventReader(r, limit)
	var all []event
	for {
		e, err := events.next()
		if err != nil {
			return all, err
		}
		all = append(all, e)
	}
}

func TestEventsAreThoseOfTheStandard(t *testing.T) {
	for _, c := range []struct {
		name, stream string
		want         []event
	}{
		{"one of each field", "retry: 1500\nid: x\nevent: delta\ndata: {}\n\n", []event{{name: "delta", id: "x", data: "{}", retry: 1500 * time.Millisecond}}},
		{"lines are joined", "data: a\ndata\ndata:\ndata: b\n\n", []event{{name: "message", data: "a\n\n\nb"}}},
		{"one space goes", "data:  a\ndata:b\n\n", []event{{name: "message", data: " a\nb"}}},
		{"an empty line of data is data", "event: fetch\ndata:\n\n", []event{{name: "fetch"}}},
		{"no data is no event", "event: fetch\nid: 1\n\ndata: x\n\n", []event{{name: "message", data: "x"}}},
		{"comments", ": hello\n:\ndata: a\n: in between\ndata: b\n\n:", []event{{name: "message", data: "a\nb"}}},
		{"unknown fields", "dat: x\ndatax: y\nextra: z\ndata: a\nnamelessandlong\n\n", []event{{name: "message", data: "a"}}},
		{"carriage returns", "data: a\r\ndata: b\r\n\r\ndata: d\n\r\n", []event{{name: "message", data: "a\nb"}, {name: "message", data: "d"}}},
		{"an event that is not over", "data: a\n\ndata: b\n", []event{{name: "message", data: "a"}}},
		{"an id with a zero byte", "id: a\x00b\ndata: a\n\n", []event{{name: "message", data: "a"}}},
		{"an id is for one event", "id: a\ndata: a\n\ndata: b\n\n", []event{{name: "message", id: "a", data: "a"}, {name: "message", data: "b"}}},
		{"retry is no number", "retry: 1s\ndata: a\n\n", []event{{name: "message", data: "a"}}},
		{"retry is remembered, and bounded", "retry: 4294967295\ndata: a\n\ndata: b\n\n", []event{
			{name: "message", data: "a", retry: maxRetry}, {name: "message", data: "b", retry: maxRetry},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for name, r := range map[string]io.Reader{
				"whole": strings.NewReader(c.stream), "bytes": iotest.OneByteReader(strings.NewReader(c.stream)),
				"halves": iotest.HalfReader(strings.NewReader(c.stream)),
			} {
				got, err := readEvents(r, 1000)
				if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(event{})); diff != "" || err != io.EOF {
					t.Errorf("%s: error %v, events (-want +got):\n%s", name, err, diff)
				}
			}
		})
	}
}

func TestEventsAreBounded(t *testing.T) {
	for name, stream := range map[string]string{
		"one line":         "data: " + strings.Repeat("x", 101) + "\n\n",
		"many lines":       strings.Repeat("data: xxxx\n", 21) + "\n",
		"many empty lines": strings.Repeat("data\n", 200) + "\n",
		"no end":           "data: " + strings.Repeat("x", 1<<20),
		"long id":          "id: " + strings.Repeat("x", 5000) + "\ndata: a\n\n",
	} {
		if got, err := readEvents(strings.NewReader(stream), 100); !errors.Is(err, errEventTooLarge) || got != nil {
			t.Errorf("%s: events %v, error %v", name, got, err)
		}
	}
	if got, err := readEvents(strings.NewReader("data: "+strings.Repeat("x", 100)+"\n\n"), 100); err != io.EOF || len(got) != 1 {
		t.Errorf("at the limit: events %v, error %v", got, err)
	}
}

// endless repeats the same bytes for ever.
type endless struct {
	text string
	at   int
}

func (e *endless) Read(p []byte) (int, error) {
	n := copy(p, e.text[e.at:])
	e.at = (e.at + n) % len(e.text)
	return n, nil
}

// TestWhatIsNoEventCostsNoMemory reads endless names, comments and values.
func TestWhatIsNoEventCostsNoMemory(t *testing.T) {
	for _, text := range []string{": comment without an end ", "name-without-an-end", "id: value without an end "} {
		reader := newEventReader(io.LimitReader(&endless{text: text}, 64<<20), 100)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, err := reader.next(); !errors.Is(err, errEventTooLarge) {
			t.Error(err)
		}
		runtime.ReadMemStats(&after)
		if got := after.TotalAlloc - before.TotalAlloc; got > 1<<20 {
			t.Errorf("%.20q: %d bytes allocated", text, got)
		}
	}
}

// TestEventIsGivenWhenItIsFlushed: neither the parser nor gzip waits for what follows an event.
func TestEventIsGivenWhenItIsFlushed(t *testing.T) {
	for _, end := range []string{"\n", "\r\n"} {
		for _, zipped := range []bool{false, true} {
			t.Run(strconv.Quote(end)+" gzip "+strconv.FormatBool(zipped), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					from, to := io.Pipe()
					var w io.Writer = to
					flush := func() {}
					if zipped {
						gz := gzip.NewWriter(to)
						w, flush = gz, func() { _ = gz.Flush() }
					}
					go func() {
						for i := range 3 {
							_, _ = io.WriteString(w, "id: "+strconv.Itoa(i)+end+"data: "+strings.Repeat("x", 10000*i)+end+end)
							flush()
							time.Sleep(time.Hour)
						}
						_ = to.Close()
					}()
					var r io.Reader = from
					if zipped {
						gz, err := gzip.NewReader(from)
						if err != nil {
							t.Fatal(err)
						}
						r = gz
					}
					start := time.Now()
					events := newEventReader(r, 1<<20)
					for i := range 3 {
						e, err := events.next()
						if late := time.Since(start) - time.Duration(i)*time.Hour; err != nil || e.id != strconv.Itoa(i) || late != 0 {
							t.Fatalf("event %q, error %v, %v late", e.id, err, late)
						}
					}
					if _, err := events.next(); err == nil {
						t.Error("no end")
					}
				})
			})
		}
	}
}

// naiveEvents reads a stream line by line, as the standard describes it for lines that end with a line feed.
func naiveEvents(stream []byte) []event {
	lines := strings.Split(strings.ReplaceAll(string(stream), "\r\n", "\n"), "\n")
	var events []event
	e, data := event{name: "message"}, []string(nil)
	var retry time.Duration
	for _, line := range lines[:len(lines)-1] {
		name, value, colon := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "":
			if data != nil {
				e.data, e.retry = strings.Join(data, "\n"), retry
				events = append(events, e)
			}
			e, data = event{name: "message"}, nil
		case name == "" && colon:
		case name == "data":
			data = append(data, value)
		case name == "event":
			e.name = value
		case name == "id":
			if e.id = value; strings.Contains(value, "\x00") {
				e.id = ""
			}
		case name == "retry":
			if n, err := strconv.ParseUint(value, 10, 32); err == nil {
				retry = min(time.Duration(n)*time.Millisecond, maxRetry)
			}
		}
	}
	return events
}

// FuzzEvents compares the reader with the naive one, however the bytes arrive.
func FuzzEvents(f *testing.F) {
	f.Add([]byte("retry: 1500\n\nevent: delta\nid: \"00.1\"\ndata: {\"base\":\"\"}\n\n: hb\n\nevent: current\nid: x\ndata: {}\n\n"))
	f.Add([]byte("event: table\r\ndata: a: * -> <shunt>;\r\ndata: b: * -> <shunt>;\r\n\r\n"))
	f.Add([]byte("event: fetch\ndata\n\ndata:\rdata\r\r:\n\n"))
	f.Add([]byte("\uFEFFevent:reconnect\ndata:{\"after_ms\":1}\n\nid:\x00\n\nretry:-1\nretry\nfoo\n"))
	f.Fuzz(func(t *testing.T, stream []byte) {
		if len(stream) > maxLine {
			return // the naive reader has no limits
		}
		want := naiveEvents(stream)
		for _, r := range []io.Reader{bytes.NewReader(stream), iotest.OneByteReader(bytes.NewReader(stream))} {
			got, err := readEvents(r, 1<<20)
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(event{})); diff != "" || err != io.EOF {
				t.Fatalf("error %v, events of %q (-want +got):\n%s", err, stream, diff)
			}
		}
		const limit = 16
		small, _ := readEvents(bytes.NewReader(stream), limit)
		for _, e := range small {
			if len(e.data) > limit {
				t.Fatalf("%d bytes, limit %d", len(e.data), limit)
			}
		}
	})
}
