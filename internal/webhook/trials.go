package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/routesrv/routesrv/internal/api"
)

// Failures asks route servers what failed their trials. It returns within two seconds.
type Failures func(context.Context) ([]api.TrialFailure, error)

// Limits of a question.
const (
	failuresTimeout = 2 * time.Second
	maxFailures     = 8 << 20 // bytes of an answer
)

// FailuresOf asks the first of several route servers, named by the URLs of their main listeners, that answers.
func FailuresOf(urls []string, transport http.RoundTripper) Failures {
	client := &http.Client{Transport: transport}
	return func(ctx context.Context) ([]api.TrialFailure, error) {
		ctx, cancel := context.WithTimeout(ctx, failuresTimeout)
		defer cancel()
		var failed []error
		for _, url := range urls {
			list, err := failuresAt(ctx, client, url)
			if err == nil {
				return list, nil
			}
			failed = append(failed, fmt.Errorf("%s: %w", url, err))
		}
		return nil, errors.Join(failed...)
	}
}

func failuresAt(ctx context.Context, client *http.Client, url string) (list []api.TrialFailure, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url+api.PathTrialFailures, nil)
	if err != nil {
		return nil, err
	}
	answer, err := client.Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, errors.New(answer.Status)
	}
	err = json.NewDecoder(io.LimitReader(answer.Body, maxFailures)).Decode(&list)
	return list, err
}

// LogTrialsUnknown says that no route server answers questions about trials. Reviews go on with what was known last.
const LogTrialsUnknown = "no route server says what failed its trials (--peers), so the webhook does not warn of what is new there"

// followFailures keeps what the judge knows of trials up to date until the context ends. Reads of the cluster do not wait for it.
func (s *Server) followFailures(ctx context.Context) {
	tick := time.NewTicker(s.cfg.Interval)
	defer tick.Stop()
	for unknown := false; ; {
		failed, err := s.cfg.Failures(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			s.judge.TakeFailures(failed)
		case !unknown:
			s.log.Warn(LogTrialsUnknown, "error", err)
		}
		unknown = err != nil
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
