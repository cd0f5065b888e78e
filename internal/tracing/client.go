package tracing

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// maxReply limits how much of the collector's answer is read.
const maxReply = 64 << 10

// client sends spans by OTLP over HTTP. The OpenTelemetry project's client would add gRPC to the binaries, just for the types of
// a message with one field.
type client struct {
	url     string
	headers http.Header
	http    *http.Client
}

// busyError is a failure after which the same batch may be retried.
type busyError struct{ error }

func (e busyError) Unwrap() error { return e.error }

// rejectedError means that the collector accepted a batch except for some spans.
type rejectedError struct{ spans int64 }

func (e rejectedError) Error() string { return fmt.Sprintf("%d spans were rejected", e.spans) }

// newClient checks the URL and returns a client.
func newClient(cfg Config) (*client, error) {
	if u, err := url.Parse(cfg.Endpoint); err != nil || u.Host == "" {
		return nil, errors.New("want the URL of a collector")
	}
	transport := cfg.Transport
	if transport == nil {
		transport = &http.Transport{MaxIdleConns: 1, IdleConnTimeout: time.Minute, TLSHandshakeTimeout: sendTimeout, ForceAttemptHTTP2: true}
	}
	return &client{cfg.Endpoint, cfg.Headers, &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse // the headers may be credentials
	}}}, nil
}

// Start and Stop do nothing: they are for clients that hold a connection.
func (c *client) Start(context.Context) error { return nil }

// Stop does nothing.
func (c *client) Stop(context.Context) error { return nil }

// UploadTraces sends one batch.
func (c *client) UploadTraces(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	// An ExportTraceServiceRequest has the same single field as TracesData, with the same number.
	message, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: spans})
	if err != nil {
		return fmt.Errorf("encode spans: %w", err)
	}
	var body bytes.Buffer
	zipped := gzip.NewWriter(&body)
	zipped.Write(message)
	zipped.Close()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, &body)
	if err != nil {
		return fmt.Errorf("send spans: %w", err)
	}
	for name, values := range c.headers {
		r.Header[name] = values
	}
	r.Header.Set("Content-Type", "application/x-protobuf")
	r.Header.Set("Content-Encoding", "gzip")
	r.Header.Set("User-Agent", "routesrv")
	resp, err := c.http.Do(r)
	if err != nil {
		return busyError{fmt.Errorf("send spans: %w", err)}
	}
	defer resp.Body.Close()
	reply, err := io.ReadAll(io.LimitReader(resp.Body, maxReply))
	switch {
	case resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode == http.StatusBadGateway ||
		resp.StatusCode == http.StatusServiceUnavailable || resp.StatusCode == http.StatusGatewayTimeout:
		return busyError{fmt.Errorf("send spans: the collector answered %s", resp.Status)}
	case resp.StatusCode/100 != 2:
		return fmt.Errorf("send spans: the collector answered %s", resp.Status)
	case err != nil:
		return nil // the collector has accepted them
	}
	if n := rejected(reply); n > 0 {
		return rejectedError{n}
	}
	return nil
}

// rejected returns how many spans the collector rejected: field 1 of field 1 of an ExportTraceServiceResponse.
func rejected(reply []byte) int64 {
	partial, _ := field(reply)
	_, n := field(partial)
	return int64(n)
}

// field returns field 1 of a message, which is bytes or a number.
func field(message []byte) (text []byte, number uint64) {
	for len(message) > 0 {
		num, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return nil, 0
		}
		message = message[n:]
		switch {
		case num == 1 && kind == protowire.BytesType:
			text, n = protowire.ConsumeBytes(message)
		case num == 1 && kind == protowire.VarintType:
			number, n = protowire.ConsumeVarint(message)
		default:
			n = protowire.ConsumeFieldValue(num, kind, message)
		}
		if n < 0 {
			return nil, 0
		}
		message = message[n:]
	}
	return text, number
}
