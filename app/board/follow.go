package board

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/routesrv/routesrv/api"
)

const (
	// maxLine is how much of a line of a stream is read. Only deltas are longer, and nothing here reads them.
	maxLine = 4 << 10
	// quietTime is how long a stream may say nothing. Servers send a heartbeat every 15 s.
	quietTime = time.Minute
)

// follow opens the stream of a cluster, unless it is open or must wait. The caller holds mu, and is a goroutine of Run.
func (b *Board) follow(ctx context.Context, c *cluster, now time.Time) {
	if c.following || c.slow || c.target == nil || c.target.Main == nil || now.Before(c.followAt) {
		return
	}
	c.following = true
	main, last := c.target.Main, c.lastEvent
	b.running.Go(func() {
		began := time.Now()
		err := b.stream(ctx, c, main, last)
		b.mu.Lock()
		defer b.mu.Unlock()
		if c.following = false; err == nil || time.Since(began) > quietTime {
			c.ended = 0
		}
		c.ended++
		c.followAt = time.Now().Add(api.Backoff(c.ended, time.Second, maxBackoff, 0.5))
	})
}

// stream reads a stream to its end.
func (b *Board) stream(ctx context.Context, c *cluster, main *Listener, last string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	quiet := time.AfterFunc(quietTime, cancel)
	defer quiet.Stop()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, main.URL+"/routes/watch", nil)
	if err != nil {
		return err
	}
	r.Header.Set("Accept", api.StreamType)
	r.Header.Set("Accept-Encoding", "identity")
	r.Header.Set("User-Agent", api.AgentTool)
	if last != "" {
		r.Header.Set("Last-Event-Id", last)
	}
	resp, err := main.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != api.StreamType {
		return errors.New("no stream: " + resp.Status)
	}
	lines := bufio.NewReaderSize(resp.Body, maxLine)
	var name, id, data string
	for {
		line, err := readLine(lines)
		if err != nil {
			return err
		}
		quiet.Reset(quietTime)
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "":
			if name == api.EventReconnect {
				return nil
			}
			if name != "" {
				b.heard(c, name, id, data)
			}
			name, id, data = "", "", ""
		case field == "event":
			name = value
		case field == "id":
			id = value
		case field == "data":
			data = value
		}
	}
}

// readLine reads a line, of which it keeps the beginning.
func readLine(r *bufio.Reader) (string, error) {
	line, err := r.ReadSlice('\n')
	text := string(bytes.TrimRight(line, "\r\n"))
	for errors.Is(err, bufio.ErrBufferFull) {
		_, err = r.ReadSlice('\n')
	}
	if err == nil && text == "" && len(line) == 0 {
		err = io.ErrUnexpectedEOF
	}
	return text, err
}

// heard takes an event: how fresh the table is, and that another one is served.
func (b *Board) heard(c *cluster, name, id, data string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if name == api.EventCurrent && c.doc.Table != nil {
		if read, _, err := api.ParseCurrent(data); err == nil {
			if at, err := api.ParseTime(read); err == nil {
				t := *c.doc.Table
				t.LastRead = at
				c.doc.Table = &t
				b.touch(c)
			}
		}
	}
	if id == "" || id == c.lastEvent {
		return
	}
	c.lastEvent = id
	if c.failures > 0 {
		return
	}
	// A burst of changes is one question, and the history follows.
	for q, within := range map[int]time.Duration{0: b.cfg.Every / 4, historyQuestion: b.cfg.Every} {
		if soon := time.Now().Add(within); c.due[q].After(soon) {
			c.due[q] = soon
		}
	}
	b.signal()
}
