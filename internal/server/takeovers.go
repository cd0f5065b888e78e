package server

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"

	"github.com/routesrv/routesrv/explain/takeover"
	"github.com/routesrv/routesrv/internal/httpserve"
	"github.com/routesrv/routesrv/internal/source/manifests"
	"github.com/routesrv/routesrv/kube"
)

// Limits of the manifests in one question.
const (
	maxTakeoverBytes   = 4 << 20
	maxTakeoverObjects = 500
)

// takeoverEndpoint returns /takeovers.
func (s *Server) takeoverEndpoint() httpserve.Endpoint {
	return httpserve.Endpoint{
		Path: "/takeovers", Methods: []string{http.MethodPost}, MaxBody: maxTakeoverBytes, Handler: s.questions.limited("/takeovers", s.serveTakeovers),
		Does: "which requests of other owners the manifests in the body would [take](../operate/before-a-change.md): YAML or JSON, at most 4 MiB and " +
			"500 objects. Text, `?format=json` or `?format=markdown`",
	}
}

// serveTakeovers says what the objects of the body would take from others, if they were in the cluster as it was read last.
func (s *Server) serveTakeovers(w http.ResponseWriter, r *http.Request) {
	result := s.compiler.Latest()
	if result == nil {
		http.Error(w, "nothing was read yet", http.StatusServiceUnavailable)
		return
	}
	objects, err := objectsOf(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	tried := make([]takeover.Tried, len(objects))
	for i, o := range objects {
		trial, err := result.Try(o)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		tried[i] = takeover.Tried{Ref: o.Ref(), Trial: trial}
	}
	report, err := takeover.Try(result, tried, s.owners(), takeover.Options{Proxy: s.proxyOptions()})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	text := func(b *bytes.Buffer) error { return report.WriteText(b) }
	if r.URL.Query().Get("format") == "markdown" {
		text = func(b *bytes.Buffer) error { return report.WriteMarkdown(b) }
	}
	writeAnswer(w, r, http.StatusOK, func(b *bytes.Buffer) error { return report.WriteJSON(b) }, text)
}

// objectsOf reads the Ingresses and RouteGroups of a body. The error names what is not one, or says that there is none.
func objectsOf(r *http.Request) ([]kube.Object, error) {
	source, err := manifests.New(manifests.Config{
		Paths: []string{"-"}, Stdin: r.Body, MaxFileBytes: maxTakeoverBytes,
	})
	if err != nil {
		return nil, err
	}
	snapshot, err := source.Read(r.Context(), kube.ReadOptions{})
	if err != nil {
		return nil, fmt.Errorf("read the manifests: %w", err)
	}
	for _, bad := range snapshot.Bad {
		return nil, fmt.Errorf("%s: %w", bad.Ref, bad.Err)
	}
	var objects []kube.Object
	for o := range snapshot.Objects() {
		objects = append(objects, o)
	}
	switch {
	case len(objects) == 0:
		return nil, errors.New("want Ingresses or RouteGroups, as YAML or JSON")
	case len(objects) > maxTakeoverObjects:
		return nil, fmt.Errorf("%d objects: want at most %d", len(objects), maxTakeoverObjects)
	}
	return objects, nil
}
