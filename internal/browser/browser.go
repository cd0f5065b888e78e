// Package browser drives a headless Chromium, for tests that use pages as people do, and for screenshots. It speaks the DevTools
// protocol over a pipe, so that no port is open. It is for tests and tools only.
package browser

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// Names returns the names that Chromium has on different machines.
func Names() []string { return []string{"chromium", "chromium-browser", "google-chrome"} }

// Find returns the path of Chromium. The error names the package to install.
func Find() (string, error) {
	for _, name := range Names() {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("cannot find Chromium: install the package chromium")
}

// Browser is a running Chromium. Start one with [Start], and Close it. It is safe for concurrent use.
type Browser struct {
	cmd     *exec.Cmd
	profile string
	stderr  *strings.Builder
	out     *os.File
	read    chan struct{} // closed when the browser closes the pipe

	mu      sync.Mutex // guards the fields below
	last    int
	waiting map[int]chan message
	pages   map[string]*Page // by session
}

// message is a message on the pipe, in either direction.
type message struct {
	ID        int             `json:"id,omitempty"`
	SessionID string          `json:"sessionId,omitempty"`
	Method    string          `json:"method,omitempty"`
	Params    json.RawMessage `json:"params,omitempty"`
	Result    json.RawMessage `json:"result,omitempty"`
	Error     *struct {
		Message string `json:"message"`
	} `json:"error,omitempty"`
}

// Start starts a headless Chromium without a profile, with additional arguments. It ends when the context ends.
func Start(ctx context.Context, args ...string) (*Browser, error) {
	path, err := Find()
	if err != nil {
		return nil, err
	}
	profile, err := os.MkdirTemp("", "chromium")
	if err != nil {
		return nil, err
	}
	toBrowser, out, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	in, fromBrowser, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	b := &Browser{
		profile: profile, stderr: &strings.Builder{}, out: out, read: make(chan struct{}), waiting: make(map[int]chan message),
		pages: make(map[string]*Page),
	}
	b.cmd = exec.CommandContext(ctx, path, append([]string{
		"--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
		"--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--hide-scrollbars", "--remote-debugging-pipe",
		"--user-data-dir=" + profile, "about:blank",
	}, args...)...)
	b.cmd.Stderr, b.cmd.ExtraFiles, b.cmd.WaitDelay = b.stderr, []*os.File{toBrowser, fromBrowser}, 5*time.Second
	err = b.cmd.Start()
	toBrowser.Close()
	fromBrowser.Close()
	if err != nil {
		in.Close()
		out.Close()
		os.RemoveAll(profile)
		return nil, err
	}
	go b.listen(in)
	return b, nil
}

// Close ends the browser and removes its files.
func (b *Browser) Close() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_ = b.call(ctx, "", "Browser.close", nil, nil)
	b.out.Close()
	select {
	case <-b.read:
	case <-ctx.Done():
		_ = b.cmd.Process.Kill()
		<-b.read
	}
	_ = b.cmd.Wait()
	for range 50 { // child processes may still write for a moment
		if os.RemoveAll(b.profile) == nil {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// listen dispatches messages from the browser.
func (b *Browser) listen(in *os.File) {
	defer close(b.read)
	defer in.Close()
	for r := bufio.NewReader(in); ; {
		text, err := r.ReadBytes(0)
		if err != nil {
			break
		}
		var m message
		if json.Unmarshal(text[:len(text)-1], &m) != nil {
			continue
		}
		b.mu.Lock()
		answer, page := b.waiting[m.ID], b.pages[m.SessionID]
		delete(b.waiting, m.ID)
		b.mu.Unlock()
		switch {
		case m.ID != 0 && answer != nil:
			answer <- m
		case m.ID == 0 && page != nil:
			page.event(m)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for id, answer := range b.waiting {
		close(answer)
		delete(b.waiting, id)
	}
}

// call calls a method and waits for its result.
func (b *Browser) call(ctx context.Context, session, method string, params, result any) error {
	if params == nil {
		params = struct{}{}
	}
	raw, err := json.Marshal(params)
	if err != nil {
		return err
	}
	answer := make(chan message, 1)
	b.mu.Lock()
	b.last++
	m := message{ID: b.last, SessionID: session, Method: method, Params: raw}
	b.waiting[m.ID] = answer
	text, err := json.Marshal(m)
	if err == nil {
		_, err = b.out.Write(append(text, 0))
	}
	b.mu.Unlock()
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	select {
	case a, ok := <-answer:
		switch {
		case !ok:
			return fmt.Errorf("%s: the browser ended: %w", method, io.ErrUnexpectedEOF)
		case a.Error != nil:
			return fmt.Errorf("%s: %s", method, a.Error.Message)
		case result != nil:
			return json.Unmarshal(a.Result, result)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", method, ctx.Err())
	}
}
