package programs_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/routesrv/routesrv/table"
)

// What the program may use beyond what it uses with a small table, and what a decoder may need whatever the input
// (docs/operate/sizing.md).
const (
	tableLimit  = 64 << 20
	memoryBound = tableLimit * 3 / 2
)

// lines writes routes without end, until w fails or n bytes are written. The texts of the routes are short or long.
func lines(w io.Writer, n int64, path string) { prefixed(w, n, "", path) }

// dataLines is lines, formatted as the data of an event.
func dataLines(w io.Writer, n int64, path string) { prefixed(w, n, "data: ", path) }

func prefixed(w io.Writer, n int64, prefix, path string) {
	var block []byte // built by hand: under the race detector this is most of the cost of a test
	for i, written := int64(1_000_000_000), int64(0); written < n; i++ {
		block = append(block, prefix...)
		block = append(block, 'r')
		block = strconv.AppendInt(block, i, 10)
		block = append(block, `: Path("/`...)
		block = append(block, path...)
		block = strconv.AppendInt(block, i, 10)
		block = append(block, "\") -> <shunt>;\n"...)
		if len(block) > 64<<10 {
			m, err := w.Write(block)
			written += int64(m)
			if err != nil {
				return
			}
			block = block[:0]
		}
	}
}

// repeated writes the same text again and again, until w fails or n bytes are written.
func repeated(w io.Writer, n int64, text string) {
	block := []byte(strings.Repeat(text, 1+(64<<10)/len(text)))
	for written := int64(0); written < n; {
		m, err := w.Write(block)
		written += int64(m)
		if err != nil {
			return
		}
	}
}

const gigabyte = 1 << 30

// fastGzip compresses fast enough for the server not to be what makes a test slow.
func fastGzip(w io.Writer) *gzip.Writer {
	e, err := gzip.NewWriterLevel(w, gzip.BestSpeed)
	if err != nil {
		panic(err) // the level is a constant
	}
	return e
}

// attacks are responses of a hostile server: to requests for a table and, with the suffix "stream", to requests for a stream.
var attacks = map[string]func(http.ResponseWriter, *http.Request){
	"zstd bomb of zeros": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "zstd")
		e, _ := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(8<<20))
		repeated(e, 4*gigabyte, "\x00")
		_ = e.Close()
	},
	"zstd bomb of routes": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "zstd")
		e, _ := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest))
		lines(e, gigabyte/4, strings.Repeat("x", 300))
		_ = e.Close()
	},
	"zstd with a huge window": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "zstd")
		e, _ := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(512<<20))
		lines(e, tableLimit-1<<20, strings.Repeat("x", 300))
		_ = e.Close()
	},
	"gzip bomb": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		e := fastGzip(w)
		lines(e, gigabyte/4, strings.Repeat("x", 300))
		_ = e.Close()
	},
	"endless body of routes":   func(w http.ResponseWriter, _ *http.Request) { lines(w, gigabyte, "") },
	"endless body in one line": func(w http.ResponseWriter, _ *http.Request) { repeated(w, gigabyte, "x") },
	"endless comment":          func(w http.ResponseWriter, _ *http.Request) { repeated(w, gigabyte, "// x ") },
	"shortest routes":          func(w http.ResponseWriter, _ *http.Request) { repeated(w, gigabyte, "a:*-><shunt>;") },
	"one route of many predicates": func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "a: A()")
		repeated(w, gigabyte, "&&A()")
	},
	"routes of many predicates": func(w http.ResponseWriter, _ *http.Request) {
		one := "a: A()" + strings.Repeat("&&A()", 3<<20/5) + "-><shunt>;"
		repeated(w, gigabyte, one)
	},
	"length that is not true": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(tableLimit))
		_, _ = io.WriteString(w, "a: * -> <shunt>;")
	},
	"length beyond the limit": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(64*gigabyte))
		lines(w, gigabyte, "")
	},
	"huge headers": func(w http.ResponseWriter, _ *http.Request) {
		for i := range 2000 {
			w.Header().Set(fmt.Sprintf("X-%d", i), strings.Repeat("x", 64<<10))
		}
	},
	"delta of many ids":        hostileDelta(`"deletes":["a"`, `,"a"`),
	"delta of many routes":     hostileDelta(`"upserts":["a: * -> <shunt>;"`, `,"a: * -> <shunt>;"`),
	"delta of one long string": hostileDelta(`"upserts":["`, "x"),
	"delta of nested lists":    hostileDelta(`"later":[`, "["),
	"delta of spaces":          hostileDelta(`"later":`, " "),

	"table/stream":             hostileEvent("event: table\n", func(w io.Writer) { dataLines(w, gigabyte, "") }),
	"fields/stream":            hostileEvent("event: table\n", func(w io.Writer) { lines(w, 4*tableLimit, "") }),
	"table in one line/stream": hostileEvent("event: table\ndata: ", func(w io.Writer) { repeated(w, gigabyte, "x") }),
	"table of many lines/stream": hostileEvent("event: table\n", func(w io.Writer) {
		repeated(w, gigabyte, "data: a: * -> <shunt>;\n")
	}),
	"delta/stream": hostileEvent("event: delta\ndata: "+deltaHead+`"upserts":["a"`, func(w io.Writer) { repeated(w, gigabyte, `,"a: * -> <shunt>;"`) }),
	"ids/stream":   hostileEvent("event: delta\ndata: "+deltaHead+`"deletes":["a"`, func(w io.Writer) { repeated(w, gigabyte, `,"a"`) }),
	"name behind the data/stream": hostileEvent("data: ", func(w io.Writer) {
		repeated(w, gigabyte, "x")
		_, _ = io.WriteString(w, "\nevent: table\n\n")
	}),
	"comment/stream": hostileEvent(": ", func(w io.Writer) { repeated(w, gigabyte, "x") }),
	"gzip bomb/stream": func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("Content-Encoding", "gzip")
		e := fastGzip(w)
		_, _ = io.WriteString(e, "event: table\n")
		dataLines(e, gigabyte/4, strings.Repeat("x", 300))
		_ = e.Close()
	},
}

var deltaHead = `{"base":"` + strings.Repeat("1", 64) + `","target":"` + strings.Repeat("2", 64) + `",`

// hostileDelta answers with an endless delta for the table that the request named.
func hostileDelta(begin, more string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, r *http.Request) {
		name, _, _ := strings.Cut(r.Header.Get("If-None-Match"), ",")
		w.Header().Set("IM", "eskip-delta")
		w.Header().Set("Delta-Base", name)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusIMUsed)
		_, _ = io.WriteString(w, deltaHead+begin)
		repeated(w, gigabyte, more)
	}
}

func hostileEvent(begin string, more func(io.Writer)) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, begin)
		more(w)
	}
}

// hostile is a server that serves a small table, and attacks once it is told to.
type hostile struct {
	tab       *table.Table
	attack    func(http.ResponseWriter, *http.Request)
	stream    bool // attack streams
	begun     atomic.Bool
	completed atomic.Int64 // attacks
}

func (h *hostile) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	isStream := strings.HasSuffix(r.URL.Path, "/watch")
	switch {
	case h.begun.Load() && isStream == h.stream:
		if !isStream {
			w.Header().Set("Etag", fmt.Sprintf(`"%064x.%d"`, time.Now().UnixNano(), 100))
			w.Header().Set("X-Revision", "100")
		}
		h.attack(w, r)
		h.completed.Add(1)
	case isStream: // briefly, so that there is an attack soon
		w.Header().Set("Content-Type", "text/event-stream")
		tag := fmt.Sprintf(`"%s.%d"`, h.tab.Digest(), h.tab.Revision())
		fmt.Fprintf(w, "id: %s\nevent: fetch\ndata:\n\n", tag)
		fmt.Fprintf(w, "id: %s\nevent: current\ndata: {}\n\n", tag)
	default:
		answerWith(w, h.tab)
	}
}

// TestPeakMemoryIsBounded: whatever a server sends, the program uses at most one and a half times --guard=max-bytes on top of
// what it uses anyway, and keeps its table.
func TestPeakMemoryIsBounded(t *testing.T) {
	for name, attack := range attacks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := &hostile{tab: tableOf(t, 100, 5), attack: attack, stream: strings.HasSuffix(name, "/stream")}
			server := httptest.NewServer(h)
			defer server.Close()
			transport := "poll"
			if h.stream {
				transport = "stream"
			}
			p := startProcess(t, "--upstream="+server.URL, "--update-mode="+transport, "-source-poll-timeout=50",
				fmt.Sprintf("--guard=max-bytes=%d", tableLimit))
			p.until("table", func() bool { return p.status().Ready })
			before := p.peak()
			h.begun.Store(true)
			if h.stream {
				p.until("attack", func() bool { return h.completed.Load() >= 2 })
			} else {
				p.until("attack", func() bool { return h.completed.Load() >= 2 && p.status().Fetch.Servers[0].Reason != "" })
			}
			h.begun.Store(false)
			p.until("recovery", func() bool {
				s := p.status()
				return s.Ready && s.Table.Routes == 100 && s.Fetch.Servers[0].Reason == ""
			})
			peak := p.peak()
			t.Logf("%.0f MiB at first, peak %.0f MiB, that is %.2f times the limit more", mib(before), mib(peak), float64(peak-before)/tableLimit)
			if peak-before > memoryBound {
				t.Errorf("%.0f MiB at first, peak %.0f MiB: more than %.0f MiB beyond it", mib(before), mib(peak), mib(memoryBound))
			}
			server.CloseClientConnections()
			p.terminate()
		})
	}
}

func mib(n int64) float64 { return float64(n) / (1 << 20) }
