package engine

import (
	"context"
	"errors"
	"testing"

	"github.com/routesrv/routesrv/kube"
	"github.com/routesrv/routesrv/table"
)

type noSource struct{}

func (noSource) Read(context.Context, kube.ReadOptions) (*kube.Snapshot, error) {
	return nil, errors.New("no source")
}

func TestMemoryOfACompilerThatPanickedIsNotTrusted(t *testing.T) {
	e, err := New(Config{Source: noSource{}, Publish: func(*table.Table) {}})
	if err != nil {
		t.Fatal(err)
	}
	before := e.compiler
	e.compile(&kube.Snapshot{})
	if e.compiler != before {
		t.Error("a compiler without fault was replaced")
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic did not reach the caller")
			}
		}()
		e.compile(&kube.Snapshot{Intent: kube.Intent{Ingresses: []*kube.Ingress{nil}}})
	}()
	if e.compiler == before {
		t.Error("the compiler was not replaced")
	}
}
