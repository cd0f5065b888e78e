package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// process is a running route server.
type process struct {
	cmd           *exec.Cmd
	main, support string
	stderr        bytes.Buffer
}

// start starts a binary and waits for its first table.
func start(ctx context.Context, binary string, args []string) (*process, error) {
	p := &process{}
	for _, address := range []*string{&p.main, &p.support} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		*address = l.Addr().String()
		l.Close()
	}
	p.cmd = exec.CommandContext(ctx, binary, append(args, "-address="+p.main, "-support-listener="+p.support)...)
	p.cmd.Stderr = &p.stderr
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	for range 6000 {
		if resp, err := http.Head(p.url() + "/routes"); err == nil {
			resp.Body.Close()
			if resp.Header.Get("Etag") != "" {
				return p, nil
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	p.stop()
	return nil, fmt.Errorf("no table: %s", p.stderr.String())
}

func (p *process) url() string { return "http://" + p.main }

func (p *process) stop() {
	_ = p.cmd.Process.Signal(os.Interrupt)
	_ = p.cmd.Wait()
}

// usage is what a process has used so far.
type usage struct {
	cpu           time.Duration
	peakMiB       float64
	read, written int64 // bytes: received or read; sent to the disk
}

func (p *process) usage() (u usage) {
	stat := p.proc("stat")
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	u.cpu = time.Duration(number(fields[11])+number(fields[12])) * (time.Second / 100) // USER_HZ
	u.peakMiB = float64(number(field(p.proc("status"), "VmHWM:"))) / 1024
	u.read, u.written = number(field(p.proc("io"), "rchar:")), number(field(p.proc("io"), "write_bytes:"))
	return u
}

// proc returns a file of the process in /proc.
func (p *process) proc(name string) string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", p.cmd.Process.Pid, name))
	if err != nil {
		panic(err) // it runs
	}
	return string(text)
}

// field returns the word after a name at the begin of a line.
func field(text, name string) string {
	for line := range strings.SplitSeq(text, "\n") {
		if rest, ok := strings.CutPrefix(line, name); ok {
			return strings.Fields(rest)[0]
		}
	}
	return ""
}

func number(text string) int64 {
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}

// profile begins to fetch a profile. The returned function waits for it.
func (p *process) profile(ctx context.Context, query, file string) func() error {
	done := make(chan error, 1)
	go func() {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.support+"/debug/pprof/"+query, nil)
		if err != nil {
			done <- err
			return
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			done <- err
			return
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if resp.StatusCode != http.StatusOK {
			err = errors.New(resp.Status)
		}
		done <- errors.Join(err, os.WriteFile(file, text, 0o600))
	}()
	return func() error { return <-done }
}
