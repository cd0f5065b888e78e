package forward

import (
	"context"
	"errors"
	"net/http"
)

// Object reads one object or list, as JSON, by the elements of its path, such as "api", "v1", "namespaces", "shop", "services". found is false if the
// API server has none. An answer of more than 32 MiB is an error.
func (c *Cluster) Object(ctx context.Context, path ...string) (body []byte, found bool, err error) {
	body, err = c.get(ctx, c.base.JoinPath(path...))
	if refused, ok := errors.AsType[*statusError](err); ok && refused.code == http.StatusNotFound {
		return nil, false, nil
	}
	return body, err == nil, err
}

// statusError is an answer of the API server that is none.
type statusError struct {
	code int
	text string
}

func (e *statusError) Error() string { return e.text }
