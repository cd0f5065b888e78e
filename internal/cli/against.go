package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/routesrv/routesrv/explain/takeover"
	"github.com/routesrv/routesrv/internal/config"
	"github.com/routesrv/routesrv/internal/source/manifests"
)

// Against asks a route server which requests of others the Ingresses and RouteGroups of manifests would take, and prints the answer as text,
// json or markdown. server is the URL of its support listener; paths are files, folders or - for standard input. Nothing else of the manifests
// leaves this machine. It returns the exit status: Healthy if they take nothing, Unhealthy if they do or may.
func Against(ctx context.Context, server string, paths []string, output string, std config.Stdio) (int, error) {
	body, err := routed(ctx, paths, std.In)
	if err != nil {
		return Trouble, err
	}
	ctx, cancel := context.WithTimeout(ctx, tableTimeout)
	defer cancel()
	const path = "/takeovers"
	listener := Listener{URL: strings.TrimSuffix(strings.TrimSuffix(server, "/"), path)}
	answer, err := listener.do(ctx, http.MethodPost, path, url.Values{"format": {"json"}}, "application/json", bytes.NewReader(body))
	if err != nil {
		return Trouble, err
	}
	if answer.status != http.StatusOK {
		return Trouble, answer.refusal(path)
	}
	var report takeover.Report
	if err := json.Unmarshal(answer.body, &report); err != nil || report.Schema != takeover.Schema {
		return Trouble, fmt.Errorf("%s: this is not the support listener of a route server that reads a cluster", listener.URL)
	}
	write := map[string]func(io.Writer) error{"text": report.WriteText, "json": report.WriteJSON, "markdown": report.WriteMarkdown}[output]
	if err := write(std.Out); err != nil {
		return Trouble, fmt.Errorf("print the result: %w", err)
	}
	if report.Found() {
		return Unhealthy, nil
	}
	return Healthy, nil
}

// routed returns the Ingresses and RouteGroups of manifests, each as a document in JSON.
func routed(ctx context.Context, paths []string, stdin io.Reader) ([]byte, error) {
	source, err := manifests.New(manifests.Config{Paths: paths, Stdin: stdin})
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = source.Objects(ctx, func(kind string, object []byte) error {
		if kind == "Ingress" || kind == "RouteGroup" {
			b.Write(object)
			b.WriteString("\n---\n")
		}
		return nil
	})
	if err == nil && b.Len() == 0 {
		err = errors.New("the manifests have no Ingress and no RouteGroup")
	}
	return b.Bytes(), err
}
