package httpserve

import (
	"net/http"
	"strings"
)

// Names of the listeners, as the references have them.
const (
	MainListener    = "main"
	SupportListener = "support"
)

// Endpoint is something that a listener answers. A listener is made of a list of them, and so is its part of
// docs/endpoints.md: what answers is what is written down.
type Endpoint struct {
	// Listener is [MainListener] or [SupportListener].
	Listener string
	// Path is that of a pattern of [http.ServeMux]: {x} stands for one segment, a slash at the end for all that is below.
	Path string
	// Methods are those that are not answered with 405; nil means that all are taken. With GET, HEAD has to be named as
	// well, unless ChecksMethods.
	Methods []string
	// Does is a sentence without a full stop, in Markdown: what the answer is.
	Does string
	// Condition says in the words of the operator when the endpoint is there, as in "with `-enable-profile`"; empty means
	// always. It is for the reference only: whoever makes the list leaves out what is not there.
	Condition string
	// ChecksMethods is for a handler that answers other methods by itself. Without it that is done by [Mux].
	ChecksMethods bool
	Handler       http.Handler
}

// Mux answers what the endpoints of a listener say, and everything else with 404, or with 405 where only the method is
// wrong. It panics if two endpoints are at odds or if one is not complete, which is an error in the list.
func Mux(listener string, endpoints []Endpoint) *http.ServeMux {
	mux := http.NewServeMux()
	for _, e := range endpoints {
		if e.Listener != listener {
			continue
		}
		if e.Does == "" || strings.HasSuffix(e.Does, ".") {
			panic("httpserve: endpoint " + e.Path + " has no sentence, or one with a full stop")
		}
		if e.Methods == nil || e.ChecksMethods {
			mux.Handle(e.Path, e.Handler)
			continue
		}
		for _, m := range e.Methods {
			if m != http.MethodHead { // part of GET
				mux.Handle(m+" "+e.Path, e.Handler)
			}
		}
	}
	return mux
}
