package api

import (
	"bytes"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// arriving is a connection on which bytes arrive, whether somebody reads them or not.
type arriving struct {
	net.Conn // nil
	mu       sync.Mutex
	news     sync.Cond
	bytes    []byte
	err      error // when there are no more
	reads    int
}

func newArriving() *arriving {
	a := &arriving{}
	a.news.L = &a.mu
	return a
}

func (a *arriving) arrive(b []byte, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.bytes, a.err = append(a.bytes, b...), err
	a.news.Broadcast()
}

func (a *arriving) Read(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for len(a.bytes) == 0 && a.err == nil {
		a.news.Wait()
	}
	a.reads++
	n := copy(p, a.bytes)
	a.bytes = a.bytes[n:]
	if n == 0 {
		return 0, a.err
	}
	return n, nil
}

func (a *arriving) Write(p []byte) (int, error) { return len(p), nil }

func TestALargeAnswerIsReadInLargePieces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const pieces, size = 1000, 4 << 10
		want := bytes.Repeat([]byte("0123456789abcdef"), pieces*size/16)
		in := newArriving()
		go func() {
			for i := range pieces {
				in.arrive(want[i*size:(i+1)*size], nil)
				time.Sleep(time.Millisecond)
			}
			in.arrive(nil, io.ErrUnexpectedEOF)
		}()
		c := &patientConn{Conn: in}
		begin := time.Now()
		var got []byte
		for small := make([]byte, 5000); ; {
			n, err := c.Read(small)
			got = append(got, small[:n]...)
			if err != nil {
				if !errors.Is(err, io.ErrUnexpectedEOF) {
					t.Errorf("it ends with %v", err)
				}
				break
			}
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%d bytes come, not the %d that were sent", len(got), len(want))
		}
		if in.reads > pieces/5 {
			t.Errorf("%d reads for %d pieces", in.reads, pieces)
		}
		if late := time.Since(begin) - pieces*time.Millisecond; late > 2*pause {
			t.Errorf("the end comes %v late", late)
		}
	})
}

// What is small comes without a pause, also on a connection that has brought something large.
func TestASmallAnswerIsNotDelayed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := newArriving()
		c := &patientConn{Conn: in}
		for range 3 {
			in.arrive(make([]byte, 10*connBuffer), nil)
			if _, err := io.ReadFull(c, make([]byte, 10*connBuffer)); err != nil {
				t.Fatal(err)
			}
			if _, err := c.Write([]byte("request")); err != nil {
				t.Fatal(err)
			}
			begin := time.Now()
			go func() {
				time.Sleep(time.Millisecond)
				in.arrive([]byte("answer"), nil)
			}()
			if _, err := io.ReadFull(c, make([]byte, len("answer"))); err != nil || time.Since(begin) > time.Millisecond {
				t.Errorf("%v after %v", err, time.Since(begin))
			}
		}
	})
}
