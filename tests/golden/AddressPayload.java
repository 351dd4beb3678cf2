package com.acme;

import java.io.IOException;
import java.util.Properties;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericData;
import org.apache.avro.generic.GenericRecord;
import org.apache.avro.generic.IndexedRecord;
import org.apache.hudi.common.model.OverwriteWithLatestAvroPayload;
import org.apache.hudi.common.util.Option;

/** Takes the address from the version that changed it last, and all else from the newest version. */
public class AddressPayload extends OverwriteWithLatestAvroPayload {
  public AddressPayload(GenericRecord record, Comparable ordering) {
    super(record, ordering);
  }

  public AddressPayload(Option<GenericRecord> record) {
    super(record);
  }

  @Override
  public OverwriteWithLatestAvroPayload preCombine(
      OverwriteWithLatestAvroPayload older, Schema schema, Properties properties) {
    try {
      IndexedRecord before = older.getInsertValue(schema).get();
      return new AddressPayload((GenericRecord) combineAndGetUpdateValue(before, schema).get(), getOrderingValue());
    } catch (IOException error) {
      throw new IllegalStateException(error);
    }
  }

  @Override
  public Option<IndexedRecord> combineAndGetUpdateValue(IndexedRecord current, Schema schema) throws IOException {
    GenericRecord incoming = new GenericData.Record((GenericData.Record) getInsertValue(schema).get(), true);
    GenericRecord before = (GenericRecord) current;
    if ((Long) before.get("address_changed") > (Long) incoming.get("address_changed")) {
      incoming.put("address", before.get("address"));
      incoming.put("address_changed", before.get("address_changed"));
    }
    return Option.of(incoming);
  }
}
