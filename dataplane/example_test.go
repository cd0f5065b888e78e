package dataplane_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"time"

	"github.com/routesrv/routesrv/dataplane"
	"github.com/routesrv/routesrv/etagcache"
	"github.com/routesrv/routesrv/table"
)

// A program that embeds the client: the table comes from a route server, and from the file while no server is available.
func ExampleClient() {
	// The route server, with a table.
	cache, err := etagcache.New(etagcache.Config{})
	if err != nil {
		panic(err)
	}
	server := httptest.NewServer(cache.Handler())
	defer server.Close()
	cache.Publish(exampleTable(1, `shop: Host("^(shop[.]example[.]org)$") -> "http://10.2.0.1:8080";
		blog: Host("^(blog[.]example[.]org)$") -> "http://10.2.0.2:8080";`))

	// The client and its loop.
	state, err := os.MkdirTemp("", "state")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(state)
	client, err := dataplane.New(dataplane.Config{
		URLs:     []string{server.URL},
		Interval: 10 * time.Millisecond,
		StateDir: state,
	})
	if err != nil {
		panic(err)
	}
	client.Boot()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- client.Run(ctx) }()

	for client.Current() == nil || client.Current().Revision() < 2 {
		if client.Current() != nil {
			cache.Publish(exampleTable(2, `shop: Host("^(shop[.]example[.]org)$") -> "http://10.2.0.3:8080";`))
		}
		time.Sleep(10 * time.Millisecond)
	}
	fmt.Println(string(client.Current().Text()))
	stop()
	if err := <-ended; err != nil {
		panic(err)
	}

	// Output:
	// shop: Host("^(shop[.]example[.]org)$") -> "http://10.2.0.3:8080";
}

func exampleTable(revision uint64, document string) *table.Table {
	routes, err := table.Parse(document)
	if err != nil {
		panic(err)
	}
	t, err := table.New(routes, revision, time.Now())
	if err != nil {
		panic(err)
	}
	return t
}
