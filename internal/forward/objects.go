package forward

import (
	"context"
	"errors"
	"net/http"
)

// Object reads an object or a list as JSON. The path has elements such as "api", "v1", "namespaces", "shop", "services". found is
// false if the API server does not have it. An answer of more than 32 MiB is an error.
func (c *Cluster) Object(ctx context.Context, path ...string) (body []byte, found bool, err error) {
	body, err = c.get(ctx, c.base.JoinPath(path...))
	if refused, ok := errors.AsType[*statusError](err); ok && refused.code == http.StatusNotFound {
		return nil, false, nil
	}
	return body, err == nil, err
}

// statusError is an error answer of the API server.
type statusError struct {
	code int
	text string
}

func (e *statusError) Error() string { return e.text }
