package faultproxy

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"
)

// swapWait is how long a request waits for another one to swap answers with.
const swapWait = 500 * time.Millisecond

// corruptible is how much of a body is held back to choose a place for the corruption.
const corruptible = 16 << 10

// ServeHTTP implements [http.Handler].
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	faults := p.plan(r)
	if a := faults[Stall]; a != nil && !p.stall(r.Context(), a) {
		panic(http.ErrAbortHandler)
	}
	if faults[Hang] != nil {
		p.strike(Hang)
		select {
		case <-r.Context().Done():
		case <-faults[Hang].until:
		}
		panic(http.ErrAbortHandler)
	}
	if faults[Reset] != nil {
		p.strike(Reset)
		p.breakOff(w)
	}
	if a := faults[Delay]; a != nil {
		p.strike(Delay)
		if !wait(r.Context(), a.Delay) {
			return
		}
	}
	switch {
	case faults[Status] != nil:
		p.strike(Status)
		code := faults[Status].Status
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"fault","code":%d}`, code)
		return
	case faults[HTML] != nil:
		p.strike(HTML)
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = io.WriteString(w, page)
		return
	}
	resp, err := p.ask(r)
	if err != nil {
		panic(http.ErrAbortHandler) // the target is gone, so break the connection
	}
	defer resp.Body.Close()
	if faults[Swap] != nil {
		resp = p.swap(r.Context(), resp)
		defer resp.Body.Close()
	}
	if faults[Duplicate] != nil && resp.ContentLength >= 0 && r.Method == http.MethodGet {
		p.strike(Duplicate)
		p.twice(w, resp)
		return
	}
	p.pass(w, r, resp, faults)
}

// pass passes an answer on, with the faults of bodies.
func (p *Proxy) pass(w http.ResponseWriter, r *http.Request, resp *http.Response, faults map[string]*active) {
	header := w.Header()
	for k, v := range resp.Header {
		header[k] = v
	}
	if resp.ContentLength >= 0 && resp.StatusCode != http.StatusNotModified {
		header.Set("Content-Length", strconv.FormatInt(resp.ContentLength, 10))
	}
	w.WriteHeader(resp.StatusCode)
	ctl := http.NewResponseController(w)
	flushed := resp.ContentLength >= 0
	if !flushed {
		_ = ctl.Flush()
	}
	var sent int64
	at := p.cutAt(resp, faults)
	piece, between := 32<<10, time.Duration(0)
	if a := faults[Drip]; a != nil {
		p.strike(Drip)
		piece, between = cmp.Or(a.Bytes, 512), a.Delay
	}
	spoil := -1
	if faults[Corrupt] != nil && (p.cfg.Checked || resp.Header.Get("Content-Encoding") != "") {
		n := resp.ContentLength
		if n < 0 {
			n = corruptible
		}
		spoil = p.intn(int(min(n, 1<<30)))
	}
	buf := make([]byte, piece)
	for {
		n, err := resp.Body.Read(buf)
		if !p.passing(r.Context(), r) {
			panic(http.ErrAbortHandler)
		}
		out := buf[:n]
		if i := spoil - int(sent); i >= 0 && i < n {
			p.strike(Corrupt)
			out[i] ^= 1 << p.intn(8)
		}
		if at >= 0 && sent+int64(n) > at {
			_, _ = w.Write(out[:max(0, at-sent)])
			_ = ctl.Flush()
			if faults[Cut] != nil {
				p.strike(Cut)
				panic(http.ErrAbortHandler)
			}
			p.strike(HalfClose)
			p.closeHalf(w, r)
			return
		}
		if n > 0 {
			if _, err := w.Write(out); err != nil {
				return
			}
			sent += int64(n)
			if !flushed || between > 0 {
				_ = ctl.Flush()
			}
			if p.cfg.OnBody != nil {
				p.cfg.OnBody(r, sent)
			}
		}
		if err != nil {
			if err != io.EOF {
				panic(http.ErrAbortHandler)
			}
			return
		}
		if between > 0 && !wait(r.Context(), between) {
			return
		}
	}
}

// cutAt returns after how many bytes of the body the connection fails; -1 means never.
func (p *Proxy) cutAt(resp *http.Response, faults map[string]*active) int64 {
	a := faults[Cut]
	if a == nil {
		a = faults[HalfClose]
	}
	if a == nil {
		return -1
	}
	if a.Bytes > 0 {
		return int64(a.Bytes)
	}
	return int64(p.intn(int(max(1, min(resp.ContentLength, 1<<30)))))
}

// passing waits while the connection is stalled. It reports whether the client is still there.
func (p *Proxy) passing(ctx context.Context, r *http.Request) bool {
	for {
		p.mu.Lock()
		var stall *active
		for _, a := range p.faults {
			if a.Name == Stall && a.concerns(r) {
				stall = a
			}
		}
		p.mu.Unlock()
		if stall == nil {
			return true
		}
		if !p.stall(ctx, stall) {
			return false
		}
	}
}

func (p *Proxy) stall(ctx context.Context, a *active) bool {
	p.strike(Stall)
	select {
	case <-a.until:
		return true
	case <-ctx.Done():
		return false
	}
}

// breakOff resets the connection of a request.
func (p *Proxy) breakOff(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err == nil {
		abort(conn)
		p.forget(conn)
	}
	panic(http.ErrAbortHandler)
}

// closeHalf sends the end of the stream and keeps the other half open until the client is gone, for at most half a minute.
func (p *Proxy) closeHalf(w http.ResponseWriter, r *http.Request) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer p.forget(conn)
	defer conn.Close()
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.CloseWrite()
	}
	_ = conn.SetReadDeadline(time.Now().Add(30 * time.Second))
	_, _ = io.Copy(io.Discard, conn)
	_ = r.Body.Close()
}

// twice sends the answer twice on the same connection.
func (p *Proxy) twice(w http.ResponseWriter, resp *http.Response) {
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	conn, buf, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer p.forget(conn)
	defer conn.Close()
	var one bytes.Buffer
	again := *resp
	again.Body, again.Close = io.NopCloser(bytes.NewReader(body)), false
	if err := again.Write(&one); err != nil {
		panic(http.ErrAbortHandler)
	}
	_, _ = buf.Write(one.Bytes())
	_, _ = buf.Write(one.Bytes())
	_ = buf.Flush()
	// A client that keeps reading gets the second answer for its next request, and then nothing.
	_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	_, _ = io.Copy(io.Discard, conn)
}

// swap pairs two concurrent requests.
type swap struct {
	mine, theirs chan *http.Response
}

// swap returns the answer of another concurrent request, which gets this one; it returns the same answer if none arrives in time.
func (p *Proxy) swap(ctx context.Context, resp *http.Response) *http.Response {
	if resp.ContentLength < 0 {
		return resp // a stream has no answer to swap
	}
	body, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	whole := *resp
	whole.Body = io.NopCloser(bytes.NewReader(body))
	p.mu.Lock()
	if other := p.waiting; other != nil {
		p.waiting = nil
		p.struck[Swap]++
		p.mu.Unlock()
		other.theirs <- &whole
		return <-other.mine
	}
	me := &swap{make(chan *http.Response, 1), make(chan *http.Response, 1)}
	me.mine <- &whole
	p.waiting = me
	p.mu.Unlock()
	timer := time.NewTimer(swapWait)
	defer timer.Stop()
	select {
	case got := <-me.theirs:
		return got
	case <-timer.C:
	case <-ctx.Done():
	}
	p.mu.Lock()
	if p.waiting == me {
		p.waiting = nil
		p.mu.Unlock()
		return <-me.mine
	}
	p.mu.Unlock()
	return <-me.theirs // another request has just arrived
}
