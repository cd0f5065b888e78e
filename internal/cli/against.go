package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/routesrv/routesrv/explain/takeover"
	"github.com/routesrv/routesrv/internal/source/manifests"
	"github.com/routesrv/routesrv/shadowdiff"
)

// Against asks a route server which requests of others the Ingresses and RouteGroups of manifests would take, and prints the answer as text,
// json or markdown. server is the URL of its support listener; paths are files, folders or - for standard input. Nothing else of the manifests
// leaves this machine. It returns the exit status: Healthy if they take nothing, Unhealthy if they do or may.
func Against(ctx context.Context, server string, paths []string, output string, std Stdio) (int, error) {
	body, err := routed(paths, std.In)
	if err != nil {
		return Trouble, err
	}
	ctx, cancel := context.WithTimeout(ctx, tableTimeout)
	defer cancel()
	target := strings.TrimSuffix(strings.TrimSuffix(server, "/"), "/takeovers") + "/takeovers?format=json"
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, target, bytes.NewReader(body))
	if err != nil {
		return Trouble, err
	}
	answer, err := new(http.Client).Do(request)
	if err != nil {
		return Trouble, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxTakeovers))
	if err != nil {
		return Trouble, err
	}
	var report takeover.Report
	switch err := json.Unmarshal(text, &report); {
	case answer.StatusCode != http.StatusOK:
		return Trouble, fmt.Errorf("%s: %s: %s", target, answer.Status, shadowdiff.Printable(strings.TrimSpace(string(text[:min(len(text), 500)]))))
	case err != nil || report.Schema != takeover.Schema:
		return Trouble, fmt.Errorf("%s: this is not the support listener of a route server that reads a cluster", target)
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

// maxTakeovers limits the answer, in bytes.
const maxTakeovers = 64 << 20

// routed returns the Ingresses and RouteGroups of manifests, each as a document in JSON.
func routed(paths []string, stdin io.Reader) ([]byte, error) {
	var b bytes.Buffer
	for _, path := range paths {
		files, err := filesOf(path)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			text, err := readManifest(file, stdin)
			if err != nil {
				return nil, err
			}
			for _, doc := range manifests.Split(text) {
				object, err := manifests.ToJSON(doc)
				if err == nil {
					err = addRouted(&b, object)
				}
				if err != nil {
					return nil, fmt.Errorf("%s: line %d: %w", file, doc.Line, err)
				}
			}
		}
	}
	if b.Len() == 0 {
		return nil, errors.New("the manifests have no Ingress and no RouteGroup")
	}
	return b.Bytes(), nil
}

// addRouted adds a document if it is an Ingress, a RouteGroup, or a list with such objects.
func addRouted(b *bytes.Buffer, object []byte) error {
	var is struct {
		Kind  string            `json:"kind"`
		Items []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(object, &is); err != nil {
		return err
	}
	if is.Kind == "Ingress" || is.Kind == "RouteGroup" {
		b.Write(object)
		b.WriteString("\n---\n")
	}
	if !strings.HasSuffix(is.Kind, "List") {
		return nil
	}
	for _, item := range is.Items {
		if err := addRouted(b, item); err != nil {
			return err
		}
	}
	return nil
}

// filesOf returns the manifests of a path: itself, or the YAML and JSON files of a folder.
func filesOf(path string) (files []string, err error) {
	if info, err := os.Stat(path); path == "-" || err == nil && !info.IsDir() {
		return []string{path}, nil
	}
	err = filepath.WalkDir(path, func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(name)) {
			files = append(files, name)
		}
		return err
	})
	return files, err
}

func readManifest(file string, stdin io.Reader) ([]byte, error) {
	if file == "-" {
		return io.ReadAll(stdin)
	}
	return os.ReadFile(file)
}
