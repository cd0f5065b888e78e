package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// limit is a constant in the code that limits an input or a wait.
type limit struct {
	input, what   string
	folder, name  string // of the constant
	unit, changed string // unit: bytes, time or number; changed: the flag that changes it, empty if there is none
}

// limits are the limits in docs/security.md.
var limits = []limit{
	{"requests to any listener", "time for headers and body", "internal/httpserve", "readTimeout", "time", ""},
	{"", "time for the answer", "internal/httpserve", "writeTimeout", "time", ""},
	{"", "idle connection", "internal/httpserve", "idleTimeout", "time", ""},
	{"", "time for the headers alone", "internal/httpserve", "headerTimeout", "time", ""},
	{"", "time for the body alone", "internal/httpserve", "bodyTimeout", "time", ""},
	{"", "bodies of one listener together", "internal/httpserve", "bodyMemory", "bytes", ""},
	{"", "headers", "internal/httpserve", "maxHeaderBytes", "bytes", ""},
	{"connections", "main listener of routesrv, if the limit of open files allows as many", "internal/config", "DefaultMaxConnections", "number", "--max-connections"},
	{"", "main listener of dataplane-client, likewise", "internal/sidecar", "maxConnections", "number", ""},
	{"", "support listener", "internal/httpserve", "supportConnections", "number", ""},
	{"", "open files that main listeners leave to others", "internal/httpserve", "reservedDescriptors", "number", ""},
	{"", "kernel buffer for what is sent on one", "internal/httpserve", "sendBufferSize", "bytes", ""},
	{"readers of a table", "time without taking anything", "etagcache", "maxSilence", "time", ""},
	{"", "time for a whole body", "etagcache", "maxBodyTime", "time", ""},
	{"", "buffer of one reader", "etagcache", "sendSize", "bytes", ""},
	{"", "streams", "internal/config", "DefaultMaxStreams", "number", "--max-streams"},
	{"tables that clients name", "remembered claims, all together", "etagcache", "maxClaims", "number", ""},
	{"", "remembered claims of one address", "etagcache", "maxClaimsPerClient", "number", ""},
	{"", "tables remembered as served", "etagcache", "maxHistory", "number", ""},
	{"", "broken downloads remembered", "etagcache", "maxBroken", "number", ""},
	{"Kubernetes API", "one answer, as sent and unpacked", "internal/source/cluster/internal/api", "DefaultMaxBytes", "bytes", ""},
	{"", "one request", "internal/config", "DefaultRequestTimeout", "time", "--kubernetes-request-timeout"},
	{"", "body of an answer that is an error", "internal/source/cluster/internal/api", "maxStatusBytes", "bytes", ""},
	{"", "depth of nested JSON", "internal/source/cluster/internal/decode", "maxDepth", "number", ""},
	{"", "token file", "internal/source/cluster/internal/api", "maxTokenFile", "bytes", ""},
	{"", "file of authorities, kubeconfig", "internal/source/cluster/internal/api", "maxCAFile", "bytes", ""},
	{"route server, as the data plane sees it", "the first table, as sent and unpacked; then four times the last one", "dataplane", "DefaultMaxBytes", "bytes", "--max-table-bytes"},
	{"", "one exchange", "dataplane", "DefaultTimeout", "time", "--fetch-timeout"},
	{"", "one route", "table", "MaxRoute", "bytes", ""},
	{"", "window of the zstd decoder", "dataplane", "maxWindow", "bytes", ""},
	{"", "an event that is neither table nor delta", "dataplane", "maxSmallEvent", "bytes", ""},
	{"", "least time between two attempts to get a stream", "dataplane", "streamGap", "time", ""},
	{"", "how far ahead a clock may be", "dataplane", "maxSkew", "time", ""},
	{"", "length of an ETag", "internal/api", "maxEntity", "bytes", ""},
	{"last-known-good file", "header", "table", "maxFileHeader", "bytes", ""},
	{"last-known-good file of a route server", "size", "internal/server", "maxLastKnownGood", "bytes", ""},
	{"mode file", "size", "internal/sidecar", "maxModeFile", "bytes", ""},
	{"certificates and keys", "one file", "internal/durable", "MaxTLSFile", "bytes", ""},
	{"configuration file", "size", "internal/config", "maxFileSize", "bytes", ""},
	{"default filters (`-default-filters-dir`)", "one file", "internal/source/filterdir", "maxSize", "bytes", ""},
	{"`--manifests`", "one file", "internal/source/manifests", "DefaultMaxFileBytes", "bytes", ""},
	{"", "files", "internal/source/manifests", "DefaultMaxFiles", "number", ""},
	{"`routesrv diff`, `routesrv match`", "one table, unpacked", "internal/source/tables", "DefaultMaxBytes", "bytes", ""},
	{"", "one table from a URL", "internal/source/tables", "DefaultTimeout", "time", ""},
	{"", "redirects", "internal/source/tables", "DefaultMaxRedirects", "number", ""},
	{"`/explain`, `/match`", "questions at a time, both together", "internal/server", "maxQuestions", "number", ""},
	{"", "time that one more waits", "internal/server", "questionWait", "time", ""},
	{"", "query", "internal/server", "maxQuestionText", "bytes", ""},
	{"", "answer of a route server that a command reads", "internal/cli", "maxAnswer", "bytes", ""},
	{"collector of traces", "one batch, with retries", "internal/tracing", "sendTimeout", "time", ""},
	{"log", "problems logged for one read", "poller", "maxLogged", "number", ""},
}

// limitParts returns the table of the limits, with their values from the code.
func limitParts() (map[string]string, error) {
	var b strings.Builder
	b.WriteString("| input | what | limit | |\n|---|---|---|---|\n")
	for _, l := range limits {
		n, err := constant(l.folder, l.name)
		if err != nil {
			return nil, err
		}
		shown := strconv.FormatInt(n, 10)
		switch l.unit {
		case "bytes":
			shown = bytesText(n)
		case "time":
			shown = durationText(time.Duration(n))
		}
		flag := ""
		if l.changed != "" {
			flag = "`" + l.changed + "`"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", l.input, l.what, shown, flag)
	}
	return map[string]string{"limits": b.String()}, nil
}

func bytesText(n int64) string {
	for _, u := range []struct {
		size int64
		name string
	}{{1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		if n >= u.size && n%u.size == 0 {
			return fmt.Sprintf("%d %s", n/u.size, u.name)
		}
	}
	return fmt.Sprintf("%d bytes", n)
}

func durationText(d time.Duration) string {
	if d%time.Minute == 0 {
		return fmt.Sprintf("%d min", d/time.Minute)
	}
	return fmt.Sprintf("%d s", d/time.Second)
}

// constant reads the value of a constant from the sources of a package, because most are not exported.
func constant(folder, name string) (int64, error) {
	names, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		return 0, err
	}
	for _, file := range names {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			return 0, err
		}
		for _, d := range f.Decls {
			if v := constantOf(d, name); v != nil {
				n, err := evaluate(v)
				if err != nil {
					return 0, fmt.Errorf("%s, %s: %w", file, name, err)
				}
				return n, nil
			}
		}
	}
	return 0, fmt.Errorf("%s has no constant %s: %w", folder, name, os.ErrNotExist)
}

func constantOf(d ast.Decl, name string) ast.Expr {
	g, ok := d.(*ast.GenDecl)
	if !ok || g.Tok != token.CONST {
		return nil
	}
	for _, s := range g.Specs {
		v := s.(*ast.ValueSpec)
		for i, n := range v.Names {
			if n.Name == name && i < len(v.Values) {
				return v.Values[i]
			}
		}
	}
	return nil
}

// units are the units of package time that constants use.
var units = map[string]time.Duration{"Millisecond": time.Millisecond, "Second": time.Second, "Minute": time.Minute, "Hour": time.Hour}

// evaluate supports the expressions that occur in these constants: numbers, products, shifts and units of time.
func evaluate(e ast.Expr) (int64, error) {
	switch e := e.(type) {
	case *ast.BasicLit:
		return strconv.ParseInt(e.Value, 0, 64)
	case *ast.SelectorExpr:
		if u, ok := units[e.Sel.Name]; ok {
			return int64(u), nil
		}
	case *ast.BinaryExpr:
		x, errX := evaluate(e.X)
		y, errY := evaluate(e.Y)
		if err := errors.Join(errX, errY); err != nil {
			return 0, err
		}
		switch e.Op {
		case token.MUL:
			return x * y, nil
		case token.SHL:
			return x << y, nil
		}
	}
	return 0, fmt.Errorf("an expression of a kind that is not known here (%T)", e)
}
