package board

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/routesrv/routesrv/api"
)

// laggard answers a status after a time, which is longer for the first answer.
type laggard struct {
	first, later time.Duration
	answered     bool
}

func (l *laggard) RoundTrip(r *http.Request) (*http.Response, error) {
	d := l.later
	if !l.answered {
		d = l.first
	}
	select {
	case <-time.After(d):
	case <-r.Context().Done():
		l.answered = true // it goes on, and has the answer the next time
		return nil, r.Context().Err()
	}
	l.answered = true
	status, err := json.Marshal(&api.Status{Started: time.Unix(1, 0), Ready: true})
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(string(status)))}, err
}

// TestClustersThatWereSlowOnceAreNot: on a busy machine, all clusters exceed the short limit once and answer in time later. They do not queue behind
// those that are always slow, and these are asked all the same.
func TestClustersThatWereSlowOnceAreNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := Config{}
		for i := range 200 {
			name, l := fmt.Sprint("once-", i), &laggard{first: 3 * time.Second, later: 1800 * time.Millisecond}
			if i < 20 {
				name, l.first, l.later = fmt.Sprint("always-", i), 5*time.Second, 5*time.Second
			}
			cfg.Clusters = append(cfg.Clusters, Cluster{Name: name, Find: func(context.Context) ([]Replica, error) {
				return []Replica{{Support: &Listener{URL: "http://c", Transport: l}}}, nil
			}})
		}
		b, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { b.Run(ctx); close(ended) }()
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		b.mu.Lock()
		for _, c := range b.clusters {
			if ago := time.Since(c.doc.Asked); c.doc.Error != "" || ago > 2*time.Minute {
				t.Errorf("%s was asked %v ago: %s", c.Name, ago, c.doc.Error)
			}
			if c.slow && strings.HasPrefix(c.Name, "once") {
				t.Errorf("%s still counts as slow", c.Name)
			}
		}
		b.mu.Unlock()
		stop()
		<-ended
	})
}
