package report

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/routesrv/routesrv/match"
)

const maxLine = 1 << 20

// Read replays all requests of a log, which may be compressed with gzip. each changes every request before it is replayed, and
// may be nil. Lines that are not requests are counted and skipped. It returns only errors of the reader and the context.
func (r *Replay) Read(ctx context.Context, log io.Reader, each func(*match.Request)) error {
	in := bufio.NewReaderSize(log, 256<<10)
	if head, _ := in.Peek(2); bytes.Equal(head, []byte{0x1f, 0x8b}) {
		unpacked, err := gzip.NewReader(in)
		if err != nil {
			return err
		}
		in = bufio.NewReaderSize(unpacked, 256<<10)
	}
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 0, 64<<10), maxLine)
	for n := 0; lines.Scan(); n++ {
		if n%4096 == 0 {
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 || line[0] == '#' {
			continue
		}
		request, err := ParseLine(line)
		if err != nil {
			if r.result.Skipped++; r.result.FirstSkipped == "" {
				r.result.FirstSkipped = fmt.Sprintf("line %d: %v", n+1, err)
			}
			continue
		}
		if each != nil {
			each(&request)
		}
		r.Add(request)
	}
	if err := lines.Err(); !errors.Is(err, bufio.ErrTooLong) {
		return err
	}
	return fmt.Errorf("a line has more than %d bytes: is this a log?", maxLine)
}

// ParseLine parses a line of a log: of Skipper's access log, in its text form or in JSON, or a method and a URL, as in
// "GET https://shop.example.org/cart". The error describes what is wrong with the line.
func ParseLine(line []byte) (match.Request, error) {
	switch {
	case len(line) > 0 && line[0] == '{':
		return parseJSON(line)
	case bytes.IndexByte(line, '"') >= 0:
		return parseCombined(string(line))
	}
	method, url, ok := strings.Cut(string(line), " ")
	url = strings.TrimSpace(url)
	if !ok || url == "" || !isMethod(method) {
		return match.Request{}, errors.New(`must be a line of an access log, or a method and a URL such as "GET https://shop.example.org/cart"`)
	}
	r := match.Request{Method: method}
	return r, SetURL(&r, url)
}

func parseJSON(line []byte) (match.Request, error) {
	var entry struct {
		Host      string `json:"host"` // of the client
		Method    string `json:"method"`
		URI       string `json:"uri"`
		Requested string `json:"requested-host"`
		Referer   string `json:"referer"`
		Agent     string `json:"user-agent"`
	}
	if err := json.Unmarshal(line, &entry); err != nil {
		return match.Request{}, fmt.Errorf("not JSON: %w", err)
	}
	return logged(entry.Host, entry.Method, entry.URI, entry.Requested, entry.Referer, entry.Agent)
}

// parseCombined parses a line of the access log: Apache's combined format, followed by duration, host, flow id and audit header.
//
//	10.0.0.9 - - [24/Nov/2026:10:00:00 +0000] "GET /cart HTTP/1.1" 200 17 "-" "curl/8.5.0" 3 shop.example.org - -
func parseCombined(line string) (match.Request, error) {
	client, _, _ := strings.Cut(line, " ")
	_, rest, ok := strings.Cut(line, `] "`)
	request, rest, ok2 := strings.Cut(rest, `" `)
	if !ok || !ok2 {
		return match.Request{}, errors.New("the access log has no request in quotes after its time")
	}
	method, uri, ok := strings.Cut(request, " ")
	if i := strings.LastIndexByte(uri, ' '); i >= 0 {
		uri = uri[:i] // the protocol
	}
	if !ok {
		return match.Request{}, fmt.Errorf("%q is not a request", request)
	}
	_, rest, _ = strings.Cut(rest, `"`) // status and size
	referer, rest, _ := strings.Cut(rest, `" "`)
	// The agent comes from the client and may contain quotes; the fields after it contain none.
	end := strings.LastIndexByte(rest, '"')
	if end < 0 {
		return match.Request{}, errors.New("the access log has no agent in quotes after the referer")
	}
	agent, fields := rest[:end], strings.Fields(rest[end+1:])
	if len(fields) < 2 {
		return match.Request{}, errors.New("the access log has no host after the duration: it is not a log of Skipper")
	}
	return logged(client, method, uri, fields[1], referer, agent)
}

// logged builds a request from the fields of a log line; a dash is an empty field.
func logged(client, method, uri, host, referer, agent string) (match.Request, error) {
	if !isMethod(method) || uri == "" {
		return match.Request{}, fmt.Errorf("no method and path in it: %q %q", method, uri)
	}
	r := match.Request{Method: method, Target: uri, Host: host, Header: map[string][]string{}}
	for name, val := range map[string]string{"Referer": referer, "User-Agent": agent} {
		if val != "" && val != "-" {
			r.Header[name] = []string{val}
		}
	}
	if host == "-" {
		r.Host = ""
	}
	if client != "-" {
		r.RemoteAddr = client
	}
	return r, nil
}

// isMethod reports whether a word has only characters that HTTP allows in methods.
func isMethod(s string) bool {
	for i := range len(s) {
		if c := s[i]; !('A' <= c && c <= 'Z' || 'a' <= c && c <= 'z' || c == '-' || c == '_') {
			return false
		}
	}
	return s != ""
}
